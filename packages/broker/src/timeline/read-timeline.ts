// Reads one page of records, sums them and adds the names that the sums show.
import type { TimelineEntry, TimelineStep } from '@brokkr/contract/timeline/timeline.ts'
import type { AgentId, DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import type { Sql } from '@brokkr/postgres'
import { mergeRecords, sumRecords, type TimelineGroup, type TimelineRecord, toAuditRecord, toEventRecord } from './rules.ts'
import * as timeline from './store.ts'

export async function readRecords(sql: Sql, range: timeline.TimelineRange): Promise<TimelineRecord[]> {
  const [audit, events] = await Promise.all([timeline.auditRecords(sql, range), timeline.eventRecords(sql, range)])
  return mergeRecords(audit.map(toAuditRecord), events.map(toEventRecord), range.limit)
}

export async function readEntries(sql: Sql, records: readonly TimelineRecord[], step: TimelineStep): Promise<TimelineEntry[]> {
  const objectIds = distinct(records.filter(({ kind }) => kind !== null).map(({ deployment_object_id }) => deployment_object_id))
  const objects = new Map((objectIds.length === 0 ? [] : await timeline.objects(sql, { ids: objectIds })).map((row) => [row.id, row]))
  const groups = sumRecords(records, step, (id) => objects.get(id)?.stack_id)
  const stackOf = ({ newest }: TimelineGroup) => newest.stack_id ?? objects.get(newest.deployment_object_id ?? '')?.stack_id ?? null
  const actorsOf = (type: string) => groups.flatMap(({ newest }) => (newest.actor_type === type ? [newest.actor_id] : []))
  const [stacks, agents, generators] = await Promise.all([
    namesOf(timeline.stacks, sql, groups.map(stackOf)),
    namesOf(timeline.agents, sql, [
      ...actorsOf('agent'),
      ...groups.flatMap(({ newest: { resource_type, resource_id } }) => (resource_type === 'agent' ? [resource_id] : [])),
    ]),
    namesOf(timeline.generators, sql, actorsOf('generator')),
  ])
  return groups.map((group) => {
    const { newest } = group
    const names = newest.actor_type === 'agent' ? agents : newest.actor_type === 'generator' ? generators : null
    const stackId = stackOf(group)
    return {
      id: newest.id,
      kind: newest.kind!,
      action: newest.action,
      status: newest.status,
      at: newest.created_at,
      since: group.since,
      records: group.records,
      agents: group.agents,
      agent_id: newest.agent_id as AgentId | null,
      agent_name: agents.get(newest.agent_id ?? '') ?? null,
      actor_type: newest.actor_type,
      actor_id: newest.actor_id,
      actor_name: names === null ? newest.actor_type : (names.get(newest.actor_id ?? '') ?? null),
      stack_id: stackId as StackId | null,
      stack_name: stacks.get(stackId ?? '') ?? null,
      deployment_object_id: newest.deployment_object_id as DeploymentObjectId | null,
      sequence_id: objects.get(newest.deployment_object_id ?? '')?.sequence_id ?? null,
      resource_type: newest.resource_type,
      resource_id: newest.resource_id,
      resource_name: newest.resource_name ?? agents.get(newest.resource_id ?? '') ?? null,
      message: newest.message,
    }
  })
}

const distinct = (ids: readonly (string | null)[]): string[] => [...new Set(ids.filter((id) => id !== null))]

async function namesOf(read: typeof timeline.stacks, sql: Sql, ids: readonly (string | null)[]): Promise<ReadonlyMap<string, string>> {
  const wanted = distinct(ids)
  return new Map((wanted.length === 0 ? [] : await read(sql, { ids: wanted })).map(({ id, name }) => [id, name]))
}
