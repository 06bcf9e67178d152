// The programs of `npm start` are those that ship.
// long: builds and starts the shipped programs
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createGenerator, startTestBroker, unique } from '@brokkr/testing/broker.ts'
import { expect, onTestFinished, test } from 'vitest'
import { preparePrograms } from './programs.mjs'

interface Programs {
  readonly programs: Record<'broker' | 'agent', { readonly args: string[]; readonly env: Record<string, string> }>
}

test('npm start builds the broker once, and it runs without TypeScript sources', { timeout: 300_000 }, async ({ annotate }) => {
  const dir = mkdtempSync(join(tmpdir(), 'brokkr-programs-'))
  onTestFinished(() => rmSync(dir, { recursive: true, force: true }))
  const file = await preparePrograms(dir)
  const text = readFileSync(file, 'utf8')
  const startedMs = performance.now()
  expect(await preparePrograms(dir)).toBe(file)
  expect(performance.now() - startedMs).toBeLessThan(5_000)
  expect(readFileSync(file, 'utf8')).toBe(text)
  const { programs } = JSON.parse(text) as Programs
  expect(Object.keys(programs)).toEqual(['broker', 'agent'])
  const main = programs.broker.args.at(-1)!
  expect(main.startsWith(dir)).toBe(true)
  const broker = await startTestBroker({ main, env: { BROKKR__LOG__LEVEL: 'info' } })
  onTestFinished(() => broker.kill())
  await annotate(`resident memory after the start: ${residentMiB(broker.pid)} MiB`)
  const tenant = await createGenerator(broker)
  const stack = await tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id } })
  // Large enough for the worker, which is a file of its own.
  const yaml_content = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {v: "${'x'.repeat(100_000)}"}\n`
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })
  expect(object.sequence_id).toBe(1)
  // From source it takes more than 200 MiB: the type stripper and the sources stay in memory. The bundle takes about 147.
  if (process.platform === 'linux') expect(residentMiB(broker.pid)).toBeLessThan(165)
})

function residentMiB(pid: number): number {
  if (process.platform !== 'linux') return 0
  return Math.round(Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024)
}
