// Collects telemetry of agent sockets and stores it in batches. Each sender has a bounded share of the queue; what exceeds it, or cannot be
// stored, is counted and announced to live readers as a gap.
import type { LogGap } from '@brokkr/contract/telemetry/telemetry.ts'
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Seal } from '../seal.ts'
import { type StoredBatch, storeTelemetry } from './actions.ts'
import type { TelemetryItem } from './rules.ts'

export interface TelemetryWriter {
  add(item: TelemetryItem): void
  /** Stores what is queued. */
  close(): Promise<void>
}
export interface WriterOptions {
  readonly batchRows: number
  readonly flushMs: number
  /** Items of one agent that may wait. */
  readonly perAgentMax: number
  /** Items of all agents that may wait. */
  readonly totalMax: number
  readonly onStored: (batch: StoredBatch) => void
  readonly onDropped: (reason: 'lane_full' | 'not_stored' | 'not_targeted', count: number) => void
}

/** Gaps of one agent that wait to be announced. An agent names the stacks, so their number needs a bound; loss in further stacks is only
 *  counted by `onDropped`. */
const gapsPerAgentMax = 256

/** Lines that an item stands for: a gap announces several. */
const countLines = (item: TelemetryItem): number => (item.is === 'log_gap' ? item.body.dropped_count : 1)

export function createTelemetryWriter(deps: { sql: Sql; seal: Seal; clock: Clock; log: Log }, options: WriterOptions): TelemetryWriter {
  let queue: TelemetryItem[] = []
  const waitingByAgent = new Map<string, number>()
  const gaps = new Map<string, Map<string, LogGap>>()
  let timer: { cancel(): void } | null = null
  let writing: Promise<void> | null = null
  let isClosed = false

  const noteGap = ({ agent_id, stack_id }: TelemetryItem['body'], dropped_count: number) => {
    const gapsOfAgent = gaps.get(agent_id) ?? new Map<string, LogGap>()
    const previous = gapsOfAgent.get(stack_id)
    if (previous === undefined && gapsOfAgent.size >= gapsPerAgentMax) return
    const since_ts = previous?.since_ts ?? new Date(deps.clock.now()).toISOString().replace('Z', '000Z')
    const total = (previous?.dropped_count ?? 0) + dropped_count
    gapsOfAgent.set(stack_id, { agent_id, stack_id, since_ts, reason: 'buffer_full', dropped_count: total })
    gaps.set(agent_id, gapsOfAgent)
  }
  const takeBatch = (): TelemetryItem[] => {
    const taken = queue.slice(0, options.batchRows)
    queue = queue.slice(options.batchRows)
    for (const { body } of taken) {
      const left = (waitingByAgent.get(body.agent_id) ?? 1) - 1
      if (left === 0) waitingByAgent.delete(body.agent_id)
      else waitingByAgent.set(body.agent_id, left)
    }
    const announced = [...gaps.values()]
      .flatMap((gapsOfAgent) => [...gapsOfAgent.values()])
      .map((body): TelemetryItem => ({ is: 'log_gap', body }))
    gaps.clear()
    return [...taken, ...announced]
  }
  const write = async () => {
    while (queue.length > 0 || gaps.size > 0) {
      const items = takeBatch()
      try {
        const batch = await storeTelemetry(deps, items)
        if (batch.items.length < items.length) options.onDropped('not_targeted', items.length - batch.items.length)
        options.onStored(batch)
      } catch (error) {
        deps.log.warn('telemetry not stored', { items: items.length, error: error as Error })
        options.onDropped('not_stored', items.length)
        for (const item of items) noteGap(item.body, countLines(item))
        return
      }
      if (!isClosed && queue.length < options.batchRows) break
    }
  }
  const flush = () => {
    timer?.cancel()
    timer = null
    writing ??= write().finally(() => {
      writing = null
      if (queue.length > 0 || gaps.size > 0) schedule()
    })
  }
  const schedule = () => {
    if (isClosed || writing !== null) return
    if (queue.length >= options.batchRows) flush()
    else timer ??= deps.clock.setTimer(options.flushMs, flush)
  }
  return {
    add: (item) => {
      if (isClosed) return options.onDropped('not_stored', countLines(item))
      const { agent_id } = item.body
      const waiting = waitingByAgent.get(agent_id) ?? 0
      if (waiting >= options.perAgentMax || queue.length >= options.totalMax) {
        options.onDropped('lane_full', countLines(item))
        noteGap(item.body, countLines(item))
      } else {
        waitingByAgent.set(agent_id, waiting + 1)
        queue.push(item)
      }
      schedule()
    },
    close: async () => {
      isClosed = true
      timer?.cancel()
      await writing
      await write()
    },
  }
}
