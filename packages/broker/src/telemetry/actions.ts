// Stores a batch of telemetry in one transaction. Items of stacks that do not target their agent are refused; gaps are checked and passed
// on, but not stored.

import type { AgentK8sEvent, AgentPodLog } from '@brokkr/contract/telemetry/telemetry.ts'
import type { Sql } from '@brokkr/postgres'
import { uuid7 } from '../rules/uuid7.ts'
import type { EncryptionContext, Seal } from '../seal.ts'
import * as agentTargets from '../targeting/store/agent-targets.ts'
import type { TelemetryItem } from './rules.ts'
import type { K8sEventRow } from './store/k8s-events.ts'
import * as k8sEvents from './store/k8s-events.ts'
import type { PodLogRow } from './store/pod-logs.ts'
import * as podLogs from './store/pod-logs.ts'

export interface StoredBatch {
  /** Accepted items in the order of arrival. */
  readonly items: readonly TelemetryItem[]
  /** Where the stored rows are found; null if the batch had only gaps. */
  readonly rows: StoredRows | null
}
/** Rows of one batch share `created_at` and have ids in this range. */
export interface StoredRows {
  readonly createdAt: string
  readonly firstId: string
  readonly lastId: string
}

export async function storeTelemetry(deps: { sql: Sql; seal: Seal }, items: readonly TelemetryItem[]): Promise<StoredBatch> {
  const accepted = await keepTargeted(deps.sql, items)
  const ids = createIds(accepted.length)
  const [firstId, lastId] = [ids[0], ids.at(-1)]
  const events = accepted.flatMap((item, at) => (item.is === 'k8s_event' ? [{ id: ids[at]!, body: item.body }] : []))
  const lines = accepted.flatMap((item, at) => (item.is === 'pod_log_line' ? [{ id: ids[at]!, body: item.body }] : []))
  if (firstId === undefined || lastId === undefined || events.length + lines.length === 0) return { items: accepted, rows: null }
  const createdAt = await deps.sql.begin(async (tx) => {
    const stored = [
      ...(events.length === 0 ? [] : await k8sEvents.insert(tx, toEventColumns(deps.seal, events))),
      ...(lines.length === 0 ? [] : await podLogs.insert(tx, toLogColumns(deps.seal, lines))),
    ]
    return stored[0]!.created_at
  })
  return { items: accepted, rows: { createdAt, firstId, lastId } }
}

/** Items whose stack targets their agent, or is still to be removed by it. */
async function keepTargeted(sql: Sql, items: readonly TelemetryItem[]): Promise<TelemetryItem[]> {
  const pairs = new Map(items.map(({ body }) => [`${body.agent_id} ${body.stack_id}`, body]))
  if (pairs.size === 0) return []
  const targets = await agentTargets.pairsAmong(sql, {
    agent_ids: [...pairs.values()].map(({ agent_id }) => agent_id),
    stack_ids: [...pairs.values()].map(({ stack_id }) => stack_id),
  })
  const targeted = new Set(targets.map(({ agent_id, stack_id }) => `${agent_id} ${stack_id}`))
  return items.filter(({ body }) => targeted.has(`${body.agent_id} ${body.stack_id}`))
}

/** Ascending, so that rows of one batch keep their order. */
const createIds = (length: number): string[] => Array.from({ length }, () => uuid7())

type Identified<Body> = { readonly id: string; readonly body: Body }
type EventBody = Extract<TelemetryItem, { is: 'k8s_event' }>['body']
type LineBody = Extract<TelemetryItem, { is: 'pod_log_line' }>['body']

const toEventColumns = (seal: Seal, events: readonly Identified<EventBody>[]): k8sEvents.NewRows => ({
  ids: events.map(({ id }) => id),
  agent_ids: events.map(({ body }) => body.agent_id),
  stack_ids: events.map(({ body }) => body.stack_id),
  observed_at: events.map(({ body }) => body.observed_at),
  reasons: events.map(({ body }) => body.reason),
  messages: events.map(({ id, body }) => seal.seal(toMessageContext(id), body.message)),
  event_types: events.map(({ body }) => body.event_type),
  sources: events.map(({ body }) => body.source),
  involved_objects: events.map(({ body }) => JSON.stringify(body.involved_object)),
})

const toLogColumns = (seal: Seal, lines: readonly Identified<LineBody>[]): podLogs.NewRows => ({
  ids: lines.map(({ id }) => id),
  agent_ids: lines.map(({ body }) => body.agent_id),
  stack_ids: lines.map(({ body }) => body.stack_id),
  namespaces: lines.map(({ body }) => body.namespace),
  pods: lines.map(({ body }) => body.pod),
  containers: lines.map(({ body }) => body.container),
  ts: lines.map(({ body }) => body.ts),
  lines: lines.map(({ id, body }) => seal.seal(toLineContext(id), body.line)),
})

/** Opens the sealed texts of stored telemetry. */
const toMessageContext = (id: string): EncryptionContext => ({ table: 'agent_k8s_events', column: 'message_sealed', id })
const toLineContext = (id: string): EncryptionContext => ({ table: 'agent_pod_logs', column: 'line_sealed', id })

export function openEvent(seal: Seal, { message_sealed, bytes: _bytes, ...event }: K8sEventRow): AgentK8sEvent {
  return { ...event, message: seal.open(toMessageContext(event.id), message_sealed) }
}

export function openLine(seal: Seal, { line_sealed, bytes: _bytes, ...line }: PodLogRow): AgentPodLog {
  return { ...line, line: seal.open(toLineContext(line.id), line_sealed) }
}
