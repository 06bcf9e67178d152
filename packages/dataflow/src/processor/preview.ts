// What a flow would do with some messages, step by step and without side effects. The ending comes from the very chain that production
// runs; the steps are shown beside it.
import { Buffer, isUtf8 } from 'node:buffer'
import { cloneJson, type Json } from '@brokkr/contract/dataflow/json.ts'
import { re2 } from '@brokkr/contract/dataflow/re2.ts'
import { type Flow, routesOf, sinkOf } from '@brokkr/contract/dataflow/types.ts'
import { buildChain, type Chain, type Outcome } from './chain.ts'
import type { Fault } from './connectors/connector.ts'
import { type Message, newMessage, payloadBytes, payloadOf, workingCopy } from './message.ts'
import type { CompiledStep } from './step.ts'
import { TransformError } from './transform.ts'

export interface PreviewStep {
  readonly index: number
  readonly type: string
  readonly applied: boolean
  readonly outputs: readonly Json[]
}
export interface Preview {
  readonly input: Json
  readonly steps: readonly PreviewStep[]
  ending: 'written' | 'dropped' | 'dead-lettered'
  /** Type of the sink, and the route that leads there; absent where nothing is written. */
  readonly sink?: string
  error?: string
}
export interface Previewed {
  readonly previews: readonly Preview[]
  /** What each message became, for a look at the sink. */
  readonly records: readonly (readonly Message[])[]
}

export function previewMessages(flow: Flow, messages: readonly Message[], nowMs: number): Previewed {
  const chain = buildChain(flow.transformations, { patterns: re2 })
  const outcomes = messages.map((message) => chain.run(message, nowMs))
  const previews = messages.map((message, at) => previewOf(flow, chain, message, outcomes[at]!, nowMs))
  return { previews, records: outcomes.map((outcome) => (outcome.do === 'write' ? outcome.records : [])) }
}

function previewOf(flow: Flow, chain: Chain, message: Message, outcome: Outcome, nowMs: number): Preview {
  const shared = { input: shown(message), steps: stepsOf(chain.steps, message, nowMs) }
  if (message.bytes > flow.maxMessageBytes)
    return {
      ...shared,
      ending: 'dead-lettered',
      error: `too_large: the message has ${message.bytes} bytes; maxMessageBytes is ${flow.maxMessageBytes}`,
    }
  if (outcome.do === 'fail') return { ...shared, ending: 'dead-lettered', error: outcome.error.message }
  if (outcome.do === 'drop') return { ...shared, ending: 'dropped' }
  const sinks = [...new Set(outcome.records.map((record) => sinkName(flow, record)))]
  return { ...shared, ending: 'written', sink: sinks.join(', ') }
}

function stepsOf(steps: readonly CompiledStep[], message: Message, nowMs: number): PreviewStep[] {
  const seen: PreviewStep[] = []
  let records: readonly Message[] = [workingCopy(message)]
  for (const step of steps) {
    const applied = records.some((record) => step.applies(record))
    try {
      records = records.flatMap((record) => [...step.run(record, { nowMs, keyCollisions: 0 })])
    } catch (error) {
      if (!(error instanceof TransformError)) throw error
      return [...seen, { index: step.index, type: step.type, applied, outputs: [] }]
    }
    seen.push({ index: step.index, type: step.type, applied, outputs: records.map(shown) })
    if (records.length === 0) return seen
  }
  return seen
}

/** A copy: later steps work on the record itself. */
function shown(record: Message): Json {
  const payload = payloadOf(workingCopy(record))
  if (payload !== undefined) return cloneJson(payload)
  const bytes = payloadBytes(record)
  if (bytes === null) return null
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return isUtf8(bytes) ? { original_data: buffer.toString() } : { original_data_base64: buffer.toString('base64') }
}

function sinkName(flow: Flow, { route }: Message): string {
  const { type } = sinkOf(flow, route)
  const found = routesOf(flow.transformations).find(({ id }) => id === route)
  return found === undefined ? type : `${type} (${found.name ?? found.condition.text})`
}

/** Lines of a sample file: each the payload of a message. */
export const sampleMessages = (lines: readonly string[]): Message[] =>
  lines.map((line, at) => newMessage({ raw: Buffer.from(line), metadata: { partition: 0, offset: at }, position: at, partition: 0 }))

export interface SinkLook {
  check(sink: ReturnType<typeof sinkOf>, records: readonly Message[]): Promise<readonly (Fault | undefined)[]>
}

/** Asks each sink whether it would take the records meant for it; one that it refuses ends as a letter. */
export async function checkSinks(flow: Flow, { previews, records }: Previewed, look: SinkLook): Promise<void> {
  const all = records.flatMap((some, at) => some.map((record) => ({ record, preview: previews[at]! })))
  for (const route of new Set(all.map(({ record }) => record.route))) {
    const meant = all.filter(({ record }) => record.route === route)
    const faults = await look.check(
      sinkOf(flow, route),
      meant.map(({ record }) => record),
    )
    for (const [at, { preview }] of meant.entries()) {
      const fault = faults[at]
      if (fault === undefined) continue
      preview.ending = 'dead-lettered'
      preview.error = `${fault.type}: ${fault.message}`
    }
  }
}
