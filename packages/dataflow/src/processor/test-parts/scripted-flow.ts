// A whole pipeline between scripted ends, with small times.
import { normalise } from '@brokkr/contract/dataflow/normalise.ts'
import type { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog } from '@brokkr/runtime/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import type { FlowCheckpoint } from '../checkpoint.ts'
import type { LanePlan } from '../flow-lanes.ts'
import { defaultSettings, type FlowSettings } from '../flow-settings.ts'
import { flowMetrics } from '../metrics.ts'
import { Pipeline } from '../pipeline.ts'
import { ScriptedSink, ScriptedSource } from './scripted.ts'

export const quickSettings: FlowSettings = {
  ...defaultSettings,
  sinkRetry: { baseMs: 2, maxMs: 20 },
  connectRetry: { baseMs: 2, maxMs: 20 },
  commitEveryMs: 5,
  blockedEveryMs: 20,
  blockedAfterMs: 40,
  drainMs: 5_000,
  lagEveryMs: 50,
}

const kafka = { type: 'kafka', config: { brokers: ['b:9092'], topic: 't' } }

export function flowOf(spec: Record<string, unknown> = {}): Flow {
  const { flow, problems } = normalise({ source: kafka, sink: kafka, ...spec }, { patterns: re2, namespace: 'ns', name: 'f' })
  if (flow === undefined) throw new Error(JSON.stringify(problems))
  return flow
}

export function scriptedFlow(
  spec: Record<string, unknown> = {},
  options: {
    settings?: Partial<FlowSettings>
    oneShots?: OneShots
    checkpoint?: FlowCheckpoint
    isBounded?: boolean
    prepare?(sinks: Record<string, ScriptedSink>): void
  } = {},
) {
  const source = new ScriptedSource()
  const sinks: Record<string, ScriptedSink> = {}
  const metrics = createMetrics()
  const pipeline = new Pipeline(
    {
      clock: systemClock,
      log: silentLog,
      metrics: flowMetrics(metrics, { namespace: 'ns', name: 'f' }),
      checkpoint: options.checkpoint,
      redact: (text) => text,
      openSource: (context) => Object.assign(source, { context }),
      openSink: ({ name }: LanePlan) => (sinks[name] ??= new ScriptedSink()),
    },
    {
      flow: flowOf(spec),
      identity: { namespace: 'ns', name: 'f' },
      specHash: 'hash',
      oneShots: options.oneShots ?? {},
      isBounded: options.isBounded ?? true,
      allowLoopback: true,
      settings: { ...quickSettings, ...options.settings },
    },
  )
  options.prepare?.(sinks)
  const done = pipeline.run()
  return { source, sinks, sink: sinks['default']!, errors: sinks['errors'], pipeline, done, metrics }
}
