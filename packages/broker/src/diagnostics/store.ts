// Diagnostic requests and their sealed results.
import { DiagnosticRequest } from '@brokkr/contract/diagnostics/diagnostic.ts'
import { count, maybe, one, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'
import type { TimeKey } from '../schema/sql-fragments.ts'
import { acceptingStatuses } from './rules.ts'

const columns = 'id, agent_id, deployment_object_id, status, requested_by, created_at, claimed_at, completed_at, expires_at'

export interface NewRequestRow {
  readonly id: string
  readonly agent_id: string
  readonly deployment_object_id: string
  readonly requested_by: string | null
  readonly retention_minutes: number
}
export const insert = one(
  'diagnostics.insert',
  DiagnosticRequest,
  (p: Slots<NewRequestRow>) => `
  insert into diagnostic_requests (id, agent_id, deployment_object_id, requested_by, expires_at)
  values (${p.id}::uuid, ${p.agent_id}::uuid, ${p.deployment_object_id}::uuid, ${p.requested_by}::text, now() + ${p.retention_minutes}::int * interval '1 minute')
  returning ${columns}`,
)

/** Oldest first. A request whose time is over is left out before the task ends it. */
export const listPending = rows(
  'diagnostics.listPending',
  DiagnosticRequest,
  (p: Slots<TimeKey & { agent_id: string; limit: number }>) => `
  select ${columns} from diagnostic_requests
  where agent_id = ${p.agent_id}::uuid and status = 'pending' and expires_at > now()
    and (created_at, id) > (${p.after_at}::timestamptz, ${p.after_id}::uuid)
  order by created_at, id limit ${p.limit}::int`,
)

export const get = maybe(
  'diagnostics.get',
  DiagnosticRequest,
  (p: Slots<{ id: string }>) => `select ${columns} from diagnostic_requests where id = ${p.id}::uuid`,
)

/** Locks the request until the transaction ends. */
export const lock = maybe(
  'diagnostics.lock',
  DiagnosticRequest,
  (p: Slots<{ id: string }>) => `select ${columns} from diagnostic_requests where id = ${p.id}::uuid for no key update`,
)

/** null: it was claimed before, or its time is over. */
export const claim = maybe(
  'diagnostics.claim',
  DiagnosticRequest,
  (p: Slots<{ id: string }>) => `
  update diagnostic_requests set status = 'claimed', claimed_at = now()
  where id = ${p.id}::uuid and status in (${acceptingStatuses('claim')}) and expires_at > now() returning ${columns}`,
)

export const complete = count(
  'diagnostics.complete',
  (p: Slots<{ id: string }>) => `
  update diagnostic_requests set status = 'completed', completed_at = now() where id = ${p.id}::uuid and status in (${acceptingStatuses('complete')})`,
)

const Result = z.object({
  id: z.string(),
  request_id: z.string(),
  parts_sealed: z.instanceof(Buffer),
  collected_at: z.string(),
  created_at: z.string(),
})
export type SealedResult = z.output<typeof Result>
const resultColumns = 'id, request_id, parts_sealed, collected_at, created_at'

export const insertResult = one(
  'diagnostics.insertResult',
  Result,
  (p: Slots<{ id: string; request_id: string; parts_sealed: Buffer; collected_at: string }>) => `
  insert into diagnostic_results (id, request_id, parts_sealed, collected_at)
  values (${p.id}::uuid, ${p.request_id}::uuid, ${p.parts_sealed}::bytea, ${p.collected_at}::timestamptz) returning ${resultColumns}`,
)

export const getResult = maybe(
  'diagnostics.getResult',
  Result,
  (p: Slots<{ request_id: string }>) => `select ${resultColumns} from diagnostic_results where request_id = ${p.request_id}::uuid`,
)

/** Ends requests whose time is over: pending ones expired, claimed ones failed. */
export const expire = count(
  'diagnostics.expire',
  (p: Slots<{ limit: number }>) => `
  update diagnostic_requests set status = case status when 'pending' then 'expired' else 'failed' end, completed_at = now() where id in (
    select id from diagnostic_requests where status in ('pending', 'claimed') and expires_at <= now()
    order by expires_at limit ${p.limit}::int for no key update skip locked)`,
)

/** Results go with their requests. */
export const removeEnded = count(
  'diagnostics.removeEnded',
  (p: Slots<{ hours: number; limit: number }>) => `
  delete from diagnostic_requests where id in (
    select id from diagnostic_requests where status in ('completed', 'expired', 'failed') and completed_at < now() - ${p.hours}::float8 * interval '1 hour'
    order by completed_at limit ${p.limit}::int for update skip locked)`,
)

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })

export const sealedSample = rows(
  'diagnostics.sealedSample',
  Sealed,
  () => `select id, parts_sealed as sealed from diagnostic_results order by id desc limit 1`,
)

/** Results have up to 2 MiB. */
export const sealedPage = rows(
  'diagnostics.sealedPage',
  Sealed,
  (p: Slots<{ after: string; since: string | null }>) => `
  select id, parts_sealed as sealed from diagnostic_results
  where id > ${p.after}::uuid and (${p.since}::timestamptz is null or created_at >= ${p.since}) order by id limit 4`,
)

/** Compare-and-set: a row that changed concurrently is left for the next pass. */
export const putSealed = count(
  'diagnostics.putSealed',
  (p: Slots<{ id: string; was: Buffer; sealed: Buffer }>) => `
  update diagnostic_results set parts_sealed = ${p.sealed}::bytea where id = ${p.id}::uuid and parts_sealed = ${p.was}::bytea`,
)
