// long: starts every program once
// Every program exits with the same code if its configuration is wrong, so that a supervisor can tell it from a crash.
import { execFile } from 'node:child_process'
import { expect, test } from 'vitest'

const wrongPort = { BROKKR__SERVER__PORT: 'none', BROKKR__AGENT__HEALTH_PORT: 'none', BROKKR__PIPELINES__METRICS_PORT: 'none' }
const flow = "{ specPath: '/nonexistent/spec.json', namespace: 'default', name: 'flow' }"
const evaluate = (code: string): string[] => ['--input-type=module', '-e', code]
const programs = [
  { program: 'the broker', args: evaluate("(await import('@brokkr/broker/main.ts')).runBroker({ env: process.env })") },
  { program: 'the agent', args: evaluate("(await import('@brokkr/agent/main.ts')).runAgent({ env: process.env })") },
  { program: 'the pipelines program', args: evaluate("(await import('@brokkr/pipelines/main.ts')).runPipelines({ env: process.env })") },
  {
    program: 'the processor',
    args: evaluate(`(await import('@brokkr/dataflow/processor/main.ts')).runProcessor({ env: process.env, flags: ${flow} })`),
  },
  {
    program: 'the replay',
    args: evaluate(`(await import('@brokkr/dataflow/processor/main.ts')).runReplay({ env: process.env, flags: ${flow} })`),
  },
  { program: 'the command line', args: ['main.ts', 'broker', 'migrate'] },
]

test.each(programs)('$program exits with 2 if its configuration is wrong', async ({ args }) => {
  const env = { PATH: process.env['PATH'] ?? '', ...wrongPort, PROCESSOR_LAG_SECONDS: 'soon' }
  const ended = await new Promise<{ code: unknown; stderr: string }>((resolve) =>
    execFile(process.execPath, args, { env, cwd: import.meta.dirname }, (error, _stdout, stderr) =>
      resolve({ code: error?.code ?? 0, stderr }),
    ),
  )
  expect(ended.stderr).toMatch(/the configuration has/)
  expect(ended.code).toBe(2)
})
