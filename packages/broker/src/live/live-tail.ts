// Live tails of stacks: subscribers of this process get stored telemetry at once; those of other processes are told by the bus where the
// rows are. Gaps are passed on and never stored.
import type { K8sEvent, LogGap, PodLogLine } from '@brokkr/contract/telemetry/telemetry.ts'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Seal } from '../seal.ts'
import { openEvent, openLine, type StoredBatch, type StoredRows } from '../telemetry/actions.ts'
import * as k8sEvents from '../telemetry/store/k8s-events.ts'
import * as podLogs from '../telemetry/store/pod-logs.ts'
import type { Bus } from './bus.ts'
import { nilId, toFrame } from './rules.ts'
import type { SocketConnection } from './socket-connection.ts'

export interface LiveTail {
  readonly subscriberCount: number
  subscribe(stackId: string, connection: SocketConnection): () => void
  /** Passes a stored batch to the subscribers of all processes. */
  readonly publish: (batch: StoredBatch) => void
  /** Rows that another process stored. */
  receiveRows(rows: StoredRows, stackIds: readonly string[] | null): void
  receiveGaps(gaps: readonly LogGap[]): void
  /** Messages of other processes may have been missed. */
  readonly announceInterruption: () => void
}

const batchRowsMax = 1000
/** Batches of other processes that wait to be read; further ones become a gap. */
const waitingMax = 200
const notifiedStacksMax = 100
const notifiedGapsMax = 25

export function createLiveTail(deps: { sql: Sql; seal: Seal; clock: Clock; log: Log; bus: Pick<Bus, 'publish'> }): LiveTail {
  const subscribers = new Map<string, Set<SocketConnection>>()
  let subscriberCount = 0
  let waiting = 0
  let reading: Promise<void> = Promise.resolve()

  const deliver = (type: string, body: { readonly stack_id: string; readonly dropped_count?: number }) => {
    const connections = subscribers.get(body.stack_id)
    if (connections === undefined) return
    const text = toFrame(type, body)
    // A dropped gap stands for all lines that it announces.
    for (const connection of connections) connection.send('telemetry', type, text, body.dropped_count ?? 1)
  }
  const announceLoss = (stackIds: Iterable<string>, reason: LogGap['reason']) => {
    const since_ts = new Date(deps.clock.now()).toISOString().replace('Z', '000Z')
    // How many rows were lost is unknown; it counts as one.
    for (const stackId of stackIds) {
      const gap: LogGap = { agent_id: nilId as AgentId, stack_id: stackId as StackId, since_ts, dropped_count: 1, reason }
      deliver('log_gap', gap)
    }
  }
  const readRows = async (rows: StoredRows, stackIds: string[]) => {
    const range = { stack_ids: stackIds, created_at: rows.createdAt, first_id: rows.firstId, last_id: rows.lastId, limit: batchRowsMax }
    const [events, lines] = await Promise.all([k8sEvents.ofBatch(deps.sql, range), podLogs.ofBatch(deps.sql, range)])
    const items = [
      ...events.map((row) => ({ id: row.id, type: 'k8s_event', body: toEventBody(openEvent(deps.seal, row)) })),
      ...lines.map((row) => ({ id: row.id, type: 'pod_log_line', body: toLineBody(openLine(deps.seal, row)) })),
    ].toSorted((left, right) => (left.id < right.id ? -1 : 1))
    for (const { type, body } of items) deliver(type, body)
  }
  return {
    get subscriberCount() {
      return subscriberCount
    },
    subscribe: (stackId, connection) => {
      const connections = subscribers.get(stackId) ?? new Set()
      subscribers.set(stackId, connections.add(connection))
      subscriberCount += 1
      return () => {
        if (!connections.delete(connection)) return
        subscriberCount -= 1
        if (connections.size === 0 && subscribers.get(stackId) === connections) subscribers.delete(stackId)
      }
    },
    publish: ({ items, rows }) => {
      for (const { is, body } of items) deliver(is, body)
      const stackIds = [...new Set(items.flatMap(({ is, body }) => (is === 'log_gap' ? [] : [body.stack_id])))]
      if (rows !== null) deps.bus.publish({ is: 'telemetry', rows, stackIds: stackIds.length > notifiedStacksMax ? null : stackIds })
      const gaps = items.flatMap((item) => (item.is === 'log_gap' ? [item.body] : []))
      for (let start = 0; start < gaps.length; start += notifiedGapsMax)
        deps.bus.publish({ is: 'gaps', gaps: gaps.slice(start, start + notifiedGapsMax) })
    },
    receiveRows: (rows, stackIds) => {
      const watched = (stackIds ?? [...subscribers.keys()]).filter((id) => subscribers.has(id))
      if (watched.length === 0) return
      if (waiting >= waitingMax) return announceLoss(watched, 'buffer_full')
      waiting += 1
      reading = reading
        .then(() => readRows(rows, watched))
        .catch((error: unknown) => {
          deps.log.warn('live telemetry of another broker not read', { error: error as Error })
          announceLoss(watched, 'disconnected')
        })
        .finally(() => {
          waiting -= 1
        })
    },
    receiveGaps: (gaps) => {
      for (const gap of gaps) deliver('log_gap', gap)
    },
    announceInterruption: () => announceLoss(subscribers.keys(), 'disconnected'),
  }
}

const toEventBody = ({ id: _id, created_at: _at, ...body }: K8sEvent & { id: string; created_at: string }): K8sEvent => body
const toLineBody = ({ id: _id, created_at: _at, ...body }: PodLogLine & { id: string; created_at: string }): PodLogLine => body
