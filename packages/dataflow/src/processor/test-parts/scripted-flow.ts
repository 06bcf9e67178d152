// A whole pipeline between scripted ends, with small times.

import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import type { OneShots } from '@brokkr/contract/dataflow/processor-spec.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { type Log, silentLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { FlowCheckpoint } from '../checkpoint/checkpoint.ts'
import { defaultSettings, type FlowSettings } from '../flow-settings.ts'
import { Pipeline } from '../pipeline/pipeline.ts'
import type { SinkPlan } from '../sinks/sink-plans.ts'
import { createFlowMetrics } from '../status/flow-metrics.ts'
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
  const { flow, problems } = normalize({ source: kafka, sink: kafka, ...spec }, { patterns: re2, namespace: 'ns', name: 'f' })
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
    log?: Log
    prepare?(sinks: Record<string, ScriptedSink>): void
  } = {},
) {
  const source = new ScriptedSource()
  const sinks: Record<string, ScriptedSink> = {}
  const metrics = createMetrics()
  const pipeline = new Pipeline(
    {
      clock: systemClock,
      log: options.log ?? silentLog,
      metrics: createFlowMetrics(metrics, { namespace: 'ns', name: 'f' }),
      checkpoint: options.checkpoint,
      redact: Object.assign((text: string) => text, { add: () => {} }),
      openSource: (context) => Object.assign(source, { context }),
      openSink: ({ name }: SinkPlan) => (sinks[name] ??= new ScriptedSink()),
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
