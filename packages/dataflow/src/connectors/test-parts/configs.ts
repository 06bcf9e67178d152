// Configurations as the normal form has them: read from a flow's spec, so that defaults are the real ones.
import type { Sink, Source } from '@brokkr/contract/dataflow/connectors/index.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'

type Config<T extends { type: string }, K extends T['type']> = Extract<T, { type: K }> extends { config: infer C } ? C : never

export function sourceConfig<K extends Source['type']>(type: K, config: object): Config<Source, K> {
  const flow = flowOf({ source: { type, config }, sink: { type: 'kafka', config: { brokers: ['127.0.0.1:1'], topic: 't' } } })
  return flow.source.config as unknown as Config<Source, K>
}

export function sinkConfig<K extends Sink['type']>(type: K, config: object): Config<Sink, K> {
  // Of the same cluster, so that a kafka sink may be asked for exactly-once.
  const { brokers = ['127.0.0.1:1'] } = config as { brokers?: readonly string[] }
  const source = { type: 'kafka', config: { brokers, topic: 't' } }
  return flowOf({ source, sink: { type, config } }).sink.config as unknown as Config<Sink, K>
}

function flowOf(spec: object) {
  const { flow, problems } = normalize(spec, { namespace: 'test', name: 'flow' })
  if (flow === undefined) throw new Error(problems.map(({ path, reason }) => `${path}: ${reason}`).join('; '))
  return flow
}
