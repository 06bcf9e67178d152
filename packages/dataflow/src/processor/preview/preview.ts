// Shows what a flow would do with some messages, step by step and without side effects. The outcome comes from the same chain that the
// processor runs.
import { Buffer, isUtf8 } from 'node:buffer'
import { cloneJson, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { type Flow, findSink, listRoutes } from '@brokkr/contract/dataflow/spec/types.ts'
import type { Fault } from '../../connectors/connector.ts'
import { getPayload, type Message, newMessage, payloadBytes, workingCopy } from '../../message/message.ts'
import { TransformError } from '../../transforms/transform.ts'
import { buildChain, type Chain, type ChainOutcome } from '../chain/chain.ts'
import type { CompiledStep } from '../chain/step.ts'

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
  /** Type of the sink and its route; absent if no record is written. */
  readonly sink?: string
  error?: string
}
export interface PreviewResult {
  readonly previews: readonly Preview[]
  /** Records of each message, for a check by the sink. */
  readonly records: readonly (readonly Message[])[]
}

export function previewMessages(flow: Flow, messages: readonly Message[], nowMs: number): PreviewResult {
  const chain = buildChain(flow.transformations, { patterns: re2 })
  const outcomes = messages.map((message) => chain.run(message, nowMs))
  const previews = messages.map((message, at) => previewMessage(flow, chain, message, outcomes[at]!, nowMs))
  return { previews, records: outcomes.map((outcome) => (outcome.do === 'write' ? outcome.records : [])) }
}

function previewMessage(flow: Flow, chain: Chain, message: Message, outcome: ChainOutcome, nowMs: number): Preview {
  const shared = { input: toShownPayload(message), steps: previewSteps(chain.steps, message, nowMs) }
  if (message.bytes > flow.maxMessageBytes)
    return {
      ...shared,
      ending: 'dead-lettered',
      error: `too_large: the message has ${message.bytes} bytes; maxMessageBytes is ${flow.maxMessageBytes}`,
    }
  if (outcome.do === 'fail') return { ...shared, ending: 'dead-lettered', error: outcome.error.message }
  if (outcome.do === 'drop') return { ...shared, ending: 'dropped' }
  const sinks = [...new Set(outcome.records.map((record) => describeSink(flow, record)))]
  return { ...shared, ending: 'written', sink: sinks.join(', ') }
}

function previewSteps(steps: readonly CompiledStep[], message: Message, nowMs: number): PreviewStep[] {
  const previews: PreviewStep[] = []
  let records: readonly Message[] = [workingCopy(message)]
  for (const step of steps) {
    const applied = records.some((record) => step.applies(record))
    try {
      records = records.flatMap((record) => [...step.run(record, { nowMs, keyCollisions: 0 })])
    } catch (error) {
      if (!(error instanceof TransformError)) throw error
      return [...previews, { index: step.index, type: step.type, applied, outputs: [] }]
    }
    previews.push({ index: step.index, type: step.type, applied, outputs: records.map(toShownPayload) })
    if (records.length === 0) return previews
  }
  return previews
}

/** A copy, because later steps change the record. */
function toShownPayload(record: Message): Json {
  const payload = getPayload(workingCopy(record))
  if (payload !== undefined) return cloneJson(payload)
  const bytes = payloadBytes(record)
  if (bytes === null) return null
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return isUtf8(bytes) ? { original_data: buffer.toString() } : { original_data_base64: buffer.toString('base64') }
}

function describeSink(flow: Flow, { route }: Message): string {
  const { type } = findSink(flow, route)
  const matchingRoute = listRoutes(flow.transformations).find(({ id }) => id === route)
  return matchingRoute === undefined ? type : `${type} (${matchingRoute.name ?? matchingRoute.condition.text})`
}

/** Each line of a sample file is the payload of a message. */
export const sampleMessages = (lines: readonly string[]): Message[] =>
  lines.map((line, at) => newMessage({ raw: Buffer.from(line), metadata: { partition: 0, offset: at }, position: at, partition: 0 }))

export interface SinkChecker {
  check(sink: ReturnType<typeof findSink>, records: readonly Message[]): Promise<readonly (Fault | undefined)[]>
}

/** Asks each sink whether it would accept its records; a rejected record makes its message dead-lettered. */
export async function checkSinks(flow: Flow, { previews, records }: PreviewResult, look: SinkChecker): Promise<void> {
  const all = records.flatMap((some, at) => some.map((record) => ({ record, preview: previews[at]! })))
  for (const route of new Set(all.map(({ record }) => record.route))) {
    const meant = all.filter(({ record }) => record.route === route)
    const faults = await look.check(
      findSink(flow, route),
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
