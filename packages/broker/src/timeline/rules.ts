// Records of the timeline and their sums per step of time. Pure.
import type { TimelineEntry, TimelineStep } from '@brokkr/contract/timeline/timeline.ts'

/** An audit entry as the store returns it. */
export interface AuditRecord {
  readonly id: string
  readonly created_at: string
  readonly action: string
  readonly actor_type: string
  readonly actor_id: string | null
  readonly resource_type: string
  readonly resource_id: string | null
  readonly resource_name: string | null
}

/** An agent event as the store returns it. */
export interface EventRecord {
  readonly id: string
  readonly created_at: string
  readonly event_type: string
  readonly status: string
  readonly agent_id: string
  readonly stack_id: string
  readonly deployment_object_id: string
  readonly message: string | null
}

export interface TimelineRecord {
  readonly id: string
  readonly created_at: string
  /** Null: an audit entry that changed nothing, such as a refused key. */
  readonly kind: TimelineEntry['kind'] | null
  readonly action: string
  readonly status: string | null
  readonly agent_id: string | null
  readonly actor_type: string
  readonly actor_id: string | null
  readonly stack_id: string | null
  readonly deployment_object_id: string | null
  readonly resource_type: string
  readonly resource_id: string | null
  readonly resource_name: string | null
  readonly message: string | null
}

/** Sign-in, refusals, reads and computations change nothing; claims are part of their work order. */
const noChange = /^(auth|session|login_link|plan|diagnostic)\.|^workorder\.claimed$/

export function toAuditRecord(row: AuditRecord): TimelineRecord {
  const isObject = row.resource_type === 'deployment_object'
  const kind = noChange.test(row.action) ? null : isObject ? 'deployment' : 'change'
  const [object, stack] = [isObject ? row.resource_id : null, row.resource_type === 'stack' ? row.resource_id : null]
  return { ...row, kind, status: null, agent_id: null, stack_id: stack, deployment_object_id: object, message: null }
}

export function toEventRecord({ event_type, ...row }: EventRecord): TimelineRecord {
  const actor = { actor_type: 'agent', actor_id: row.agent_id }
  return { ...row, ...actor, kind: 'agent', action: event_type, resource_type: 'stack', resource_id: row.stack_id, resource_name: null }
}

const isNewer = (a: TimelineRecord, b: TimelineRecord): boolean =>
  a.created_at === b.created_at ? a.id > b.id : a.created_at > b.created_at

/** Merges two lists that are sorted newest first, up to `limit` records. */
export function mergeRecords(a: readonly TimelineRecord[], b: readonly TimelineRecord[], limit: number): TimelineRecord[] {
  const merged: TimelineRecord[] = []
  for (let [i, j] = [0, 0]; merged.length < limit && (i < a.length || j < b.length); ) {
    const [left, right] = [a[i], b[j]]
    if (right === undefined || (left !== undefined && isNewer(left, right))) [merged[merged.length], i] = [left!, i + 1]
    else [merged[merged.length], j] = [right, j + 1]
  }
  return merged
}

/** Sums of records, newest first, with the newest record of each. */
export interface TimelineGroup {
  readonly newest: TimelineRecord
  readonly since: string
  readonly records: number
  readonly agents: number
}

/** Lengths of the part of a timestamp that names the step. */
const stepLength = { minute: 'YYYY-MM-DDTHH:MM'.length, hour: 'YYYY-MM-DDTHH'.length, day: 'YYYY-MM-DD'.length } as const

/** `stackOf` finds the stack of a deployment object. */
export function sumRecords(
  records: readonly TimelineRecord[],
  step: TimelineStep,
  stackOf: (objectId: string) => string | undefined,
): TimelineGroup[] {
  const groups = new Map<string, { newest: TimelineRecord; since: string; records: number; agentIds: Set<string> }>()
  for (const record of records) {
    if (record.kind === null) continue
    const stack = record.stack_id ?? (record.deployment_object_id === null ? undefined : stackOf(record.deployment_object_id))
    const whose = record.kind === 'agent' ? record.status : `${record.actor_type} ${record.actor_id}`
    const key = [
      record.created_at.slice(0, stepLength[step]),
      record.kind,
      record.action,
      whose,
      record.kind === 'change' ? '' : stack,
    ].join(' ')
    const group = groups.get(key) ?? { newest: record, since: record.created_at, records: 0, agentIds: new Set() }
    group.records += 1
    group.since = record.created_at
    if (record.agent_id !== null) group.agentIds.add(record.agent_id)
    groups.set(key, group)
  }
  return [...groups.values()].map(({ agentIds, ...group }) => ({ ...group, agents: agentIds.size }))
}
