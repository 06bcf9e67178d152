// Stored log lines of the pods of stacks, newest first. Lines are sealed.
import { AgentPodLog } from '@brokkr/contract/telemetry/telemetry.ts'
import { count, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import type { TimeKey } from '../../schema/sql-fragments.ts'

export interface NewRows {
  readonly ids: string[]
  readonly agent_ids: string[]
  readonly stack_ids: string[]
  readonly namespaces: string[]
  readonly pods: string[]
  readonly containers: string[]
  readonly ts: string[]
  readonly lines: Buffer[]
}
/** `created_at` is the start of the transaction, the same for all rows of a batch. */
export const insert = rows(
  'agent_pod_logs.insert',
  z.object({ created_at: z.string() }),
  (p: Slots<NewRows>) => `
  with stored as (
    insert into agent_pod_logs (id, agent_id, stack_id, namespace, pod, container, ts, line_sealed)
    select * from unnest(${p.ids}::uuid[], ${p.agent_ids}::uuid[], ${p.stack_ids}::uuid[], ${p.namespaces}::text[], ${p.pods}::text[],
                         ${p.containers}::text[], ${p.ts}::timestamptz[], ${p.lines}::bytea[])
    returning created_at)
  select distinct created_at from stored`,
)

const Row = AgentPodLog.omit({ line: true }).extend({ line_sealed: z.instanceof(Buffer), bytes: z.int() })
export type PodLogRow = z.output<typeof Row>
const columns = 'id, agent_id, stack_id, namespace, pod, container, ts, line_sealed, created_at'

/** A page ends behind the row with which its sealed texts exceed 8 MiB. */
export const list = rows(
  'agent_pod_logs.list',
  Row,
  (p: Slots<TimeKey & { stack_id: string; since: string | null; retention_seconds: number; limit: number }>) => `
  select ${columns}, bytes from (
    select ${columns}, octet_length(line_sealed) as bytes,
           sum(octet_length(line_sealed)) over (order by created_at desc, id desc) - octet_length(line_sealed) as bytes_before
    from (select ${columns} from agent_pod_logs
          where stack_id = ${p.stack_id}::uuid and (created_at, id) < (${p.after_at}::timestamptz, ${p.after_id}::uuid)
            and created_at >= greatest(${p.since}::timestamptz, now() - ${p.retention_seconds}::float8 * interval '1 second')
          order by created_at desc, id desc limit ${p.limit}::int) page) measured
  where bytes_before <= 8388608 order by created_at desc, id desc`,
)

/** The rows of one batch, oldest first. */
export const ofBatch = rows(
  'agent_pod_logs.ofBatch',
  Row,
  (p: Slots<{ stack_ids: string[]; created_at: string; first_id: string; last_id: string; limit: number }>) => `
  select ${columns}, octet_length(line_sealed) as bytes from agent_pod_logs
  where stack_id = any(${p.stack_ids}::uuid[]) and created_at = ${p.created_at}::timestamptz
    and id between ${p.first_id}::uuid and ${p.last_id}::uuid
  order by id limit ${p.limit}::int`,
)

/** Rows that no partition holds. */
export const removeUnpartitioned = count(
  'agent_pod_logs.removeUnpartitioned',
  (p: Slots<{ retention_seconds: number; limit: number }>) => `
  delete from agent_pod_logs_default where ctid = any(array(
    select ctid from agent_pod_logs_default where created_at < now() - ${p.retention_seconds}::float8 * interval '1 second' limit ${p.limit}::int))`,
)

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })
export const sealedSample = rows(
  'agent_pod_logs.sealedSample',
  Sealed,
  () => `select id, line_sealed as sealed from agent_pod_logs order by id desc limit 1`,
)
export const sealedPage = rows(
  'agent_pod_logs.sealedPage',
  Sealed,
  (p: Slots<{ after: string; since: string | null }>) => `
  select id, line_sealed as sealed from agent_pod_logs
  where id > ${p.after}::uuid and (${p.since}::timestamptz is null or created_at >= ${p.since}) order by id limit 100`,
)
export const putSealed = count(
  'agent_pod_logs.putSealed',
  (p: Slots<{ id: string; was: Buffer; sealed: Buffer }>) => `
  update agent_pod_logs set line_sealed = ${p.sealed}::bytea where id = ${p.id}::uuid and line_sealed = ${p.was}::bytea`,
)
