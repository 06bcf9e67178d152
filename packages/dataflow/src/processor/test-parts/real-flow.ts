// A whole pipeline with real connectors inside the test's own process, and the same as a program of its own that can be killed.
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import type { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import type { Progress } from '@brokkr/contract/dataflow/progress.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { logLine, type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { openSink, openSource } from '../../connectors/open-connectors.ts'
import type { FlowCheckpoint } from '../checkpoint/checkpoint.ts'
import { defaultSettings, type FlowSettings } from '../flow-settings.ts'
import { Pipeline } from '../pipeline/pipeline.ts'
import type { FlowEnd } from '../pipeline/pipeline-options.ts'
import { createRedact } from '../secret-values.ts'
import { createFlowMetrics } from '../status/flow-metrics.ts'

export const smallTimes: Partial<FlowSettings> = {
  sinkRetry: { baseMs: 50, maxMs: 500 },
  connectRetry: { baseMs: 50, maxMs: 500 },
  commitEveryMs: 100,
  blockedEveryMs: 200,
  blockedAfterMs: 500,
  lagEveryMs: 200,
}

export interface RealFlowOptions {
  readonly name?: string
  readonly settings?: Partial<FlowSettings>
  readonly oneShots?: OneShots
  readonly isBounded?: boolean
  readonly checkpoint?: FlowCheckpoint
}

export interface RealFlow {
  readonly pipeline: Pipeline
  readonly done: Promise<FlowEnd>
  readonly logged: string[]
  readonly metrics: () => Promise<string>
  progress(): Progress
  stop(): Promise<FlowEnd>
}

export function startFlow(spec: Record<string, unknown>, options: RealFlowOptions = {}): RealFlow {
  const identity = { namespace: 'test', name: options.name ?? 'flow' }
  const { flow, problems } = normalize(spec, { patterns: re2, ...identity })
  if (flow === undefined) throw new Error(problems.map(({ path, reason }) => `${path}: ${reason}`).join('; '))
  const redact = createRedact(flow)
  const logged: string[] = []
  const log = createLog({ name: 'test', level: 'debug', destination: { write: (line) => void logged.push(redact(line)) } })
  const metrics = createMetrics()
  const pipeline = new Pipeline(
    {
      clock: systemClock,
      log,
      metrics: createFlowMetrics(metrics, identity),
      checkpoint: options.checkpoint,
      redact,
      openSource: (context) => openSource(flow.source, context),
      openSink: ({ spec: sink }, context) => openSink(sink, context),
    },
    {
      flow,
      identity,
      specHash: 'hash',
      oneShots: options.oneShots ?? {},
      isBounded: options.isBounded ?? false,
      allowLoopback: true,
      settings: { ...defaultSettings, ...smallTimes, ...options.settings },
    },
  )
  metrics.beforeScrape(() => pipeline.report.updateGauges())
  const done = pipeline.run()
  return {
    pipeline,
    done,
    logged,
    metrics: () => metrics.text(),
    progress: () => pipeline.progress({ pod: 'pod', version: 'test' }),
    stop: () => {
      pipeline.stop()
      return done
    },
  }
}

export interface RealProcessor extends ProgramProcess {
  page(path: string): Promise<{ status: number; text: string }>
  progress(): Promise<Progress>
  /** Resolves when it reads. */
  ready(): Promise<void>
}

/** `brokkr dataflow processor` as a process, with its checkpoint in `folder` unless told. */
export async function startProcessor(
  spec: Record<string, unknown>,
  options: { folder: string; name?: string; args?: readonly string[]; env?: Record<string, string>; oneShots?: OneShots; id?: string },
): Promise<RealProcessor> {
  const id = options.id ?? 'processor'
  const specPath = join(options.folder, `${id}.json`)
  await writeFile(specPath, JSON.stringify({ spec, oneShots: options.oneShots ?? {} }), { mode: 0o600 })
  const program = await startProgram({
    name: id,
    main: 'packages/cli/src/main.ts',
    folder: options.folder,
    args: [
      'dataflow',
      'processor',
      `--spec-path=${specPath}`,
      '--namespace=test',
      `--name=${options.name ?? 'flow'}`,
      '--metrics-port=0',
      '--tap-port=0',
      ...(options.args ?? ['--checkpoint-file', join(options.folder, 'checkpoint.json')]),
    ],
    env: { PATH: process.env['PATH'] ?? '', PROCESSOR_ALLOW_LOOPBACK: 'true', PROCESSOR_BLOCKED_RETRY_SECONDS: '1', ...options.env },
  })
  let port: unknown
  const page = async (path: string) => {
    port ??= (await logLine(program, 'processor started'))['port']
    const answer = await fetch(`http://127.0.0.1:${String(port)}${path}`, { signal: AbortSignal.timeout(10_000) })
    return { status: answer.status, text: await answer.text() }
  }
  return Object.assign(Object.create(program) as ProgramProcess, {
    page,
    progress: async () => JSON.parse((await page('/progress')).text) as Progress,
    ready: async () =>
      void (await waitFor('the processor to be ready', async () => (await page('/readyz')).status === 200, {
        limitMs: 120_000,
        onTimeout: () => program.logTail(30),
      })),
  })
}
