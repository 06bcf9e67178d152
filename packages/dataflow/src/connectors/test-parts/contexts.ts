// What a connector gets from the pipeline, for tests that drive it by hand: real clock, no log, a budget that is a switch.

import { systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import type { Batch, Budget, Message, SinkContext, Source, SourceContext } from '../connector.ts'

export type Seen = {
  notices: string[]
  conditions: Map<string, string>
  dropped: number
  assigned: number[][]
  revoked: number[][]
  saves: number
  conflicts: number
}

export const nothingSeen = (): Seen => ({
  notices: [],
  conditions: new Map(),
  dropped: 0,
  assigned: [],
  revoked: [],
  saves: 0,
  conflicts: 0,
})

export function sourceContext(part: Partial<SourceContext> = {}, seen: Seen = nothingSeen()): SourceContext {
  return {
    flow: { namespace: 'test', name: 'flow' },
    clock: systemClock,
    log: silentLog,
    allowLoopback: true,
    signal: new AbortController().signal,
    addSecret: () => undefined,
    stored: undefined,
    isBounded: false,
    replicas: 1,
    assigned: async (partitions) => void seen.assigned.push([...partitions] as number[]),
    revoked: async (partitions) => void seen.revoked.push([...partitions] as number[]),
    stateChanged: () => void (seen.saves += 1),
    condition: (type, message) => void (message === undefined ? seen.conditions.delete(type) : seen.conditions.set(type, message)),
    notice: (reason, message) => void seen.notices.push(`${reason}: ${message}`),
    dropped: (_reason, count) => void (seen.dropped += count),
    ...part,
  }
}

export function sinkContext(part: Partial<SinkContext> = {}, seen: Seen = nothingSeen()): SinkContext {
  return {
    flow: { namespace: 'test', name: 'flow' },
    clock: systemClock,
    log: silentLog,
    allowLoopback: true,
    signal: new AbortController().signal,
    role: 'main',
    positionKey: 'test/flow',
    source: { origin: 'origin', compare: (left, right) => Number(left) - Number(right) },
    epoch: 1,
    soleWriter: undefined,
    addSecret: () => undefined,
    hasStablePositions: true,
    storedState: undefined,
    saveState: undefined,
    conflictsIgnored: (count) => void (seen.conflicts += count),
    ...part,
  }
}

export const endlessBudget: Budget = { isSpent: false, room: async () => undefined }

/** Reads until `isEnough`, or until the source ends by itself; the iterator is left, the source stays open. */
export async function readUntil(
  source: Source,
  isEnough: (messages: readonly Message[]) => boolean,
  budget = endlessBudget,
): Promise<Message[]> {
  const messages: Message[] = []
  for await (const batch of source.read(budget)) {
    messages.push(...batch.messages)
    if (isEnough(messages)) break
  }
  return messages
}

export const readCount = (source: Source, count: number): Promise<Message[]> => readUntil(source, ({ length }) => length >= count)

export type { Batch }
