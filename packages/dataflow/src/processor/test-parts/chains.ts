// Chains for tests: transformations as a spec writes them, run over payloads.
import { Buffer } from 'node:buffer'
import type { Json, Metadata } from '@brokkr/contract/dataflow/language/json.ts'
import { re2 } from '@brokkr/contract/dataflow/language/re2.ts'
import { normalize } from '@brokkr/contract/dataflow/spec/normalize.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { type Message, newMessage, payloadBytes } from '../../message/message.ts'
import { buildChain, type Chain, type ChainOutcome } from '../chain/chain.ts'

type Map = Record<string, unknown>
const kafka = (topic: string): Map => ({ type: 'kafka', config: { brokers: ['a'], topic } })
export const step = (type: string, config: Map = {}, more: Map = {}): Map => ({ type, config, ...more })
export const route = (condition: string, topic: string): Map => ({ condition, sink: kafka(topic) })

export function flowOf(...steps: Map[]): Flow {
  const { flow, problems } = normalize({ source: kafka('in'), sink: kafka('main'), transformations: steps }, { patterns: re2 })
  if (flow === undefined) throw new Error(problems.map(({ rule, path, reason }) => `${rule} ${path}: ${reason}`).join('\n'))
  return flow
}

/** The rules a spec breaks. */
export const rulesBroken = (...steps: Map[]): string[] =>
  normalize({ source: kafka('in'), sink: kafka('main'), transformations: steps }, { patterns: re2 }).problems.map(({ rule }) => rule)

export const chainOf = (...steps: Map[]): Chain => buildChain(flowOf(...steps).transformations, { patterns: re2 })

/** A payload as text, bytes or JSON. */
export type Given = string | Uint8Array | { readonly json: Json } | undefined

interface Around {
  readonly metadata?: Metadata
  readonly key?: string
  readonly nowMs?: number
}
export const nowMs = Date.parse('2026-01-16T13:55:03.000Z')

export function messageOf(given: Given, { metadata = {}, key }: Around = {}): Message {
  const raw =
    typeof given === 'string' ? Buffer.from(given) : given instanceof Uint8Array ? given : given && Buffer.from(JSON.stringify(given.json))
  return newMessage({ raw, key: key === undefined ? undefined : Buffer.from(key), metadata, position: 0, partition: 0 })
}

export const runChain = (chain: Chain, given: Given, around: Around = {}): ChainOutcome =>
  chain.run(messageOf(given, around), around.nowMs ?? nowMs)

export function recordsOf(outcome: ChainOutcome): readonly Message[] {
  if (outcome.do === 'fail') throw outcome.error
  return outcome.do === 'write' ? outcome.records : []
}

export const textOf = (message: Message): string | null => {
  const bytes = payloadBytes(message)
  return bytes === null ? null : Buffer.from(bytes).toString()
}

/** The payloads that leave the steps, as values. */
export const run = (steps: Map | Map[], given: Given, around: Around = {}): unknown[] =>
  recordsOf(runChain(chainOf(...[steps].flat()), given, around)).map((record) => JSON.parse(textOf(record)!) as unknown)

/** The one payload that leaves the steps, as the text it is. */
export function runText(steps: Map | Map[], given: Given, around: Around = {}): string | null {
  const records = recordsOf(runChain(chainOf(...[steps].flat()), given, around))
  if (records.length !== 1) throw new Error(`${records.length} records`)
  return textOf(records[0]!)
}

/** The text of the error a message fails with. */
export function failure(steps: Map | Map[], given: Given, around: Around = {}): string {
  const outcome = runChain(chainOf(...[steps].flat()), given, around)
  if (outcome.do !== 'fail') throw new Error(`it did not fail, but ${outcome.do}`)
  return outcome.error.message
}
