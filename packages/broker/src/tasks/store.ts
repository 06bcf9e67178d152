// Task leases and the result of the last run. A lease is taken only if no process holds it and the task is due, by database time.
import { count, maybe, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

/** null if another process holds the lease or the task is not due. */
export const take = maybe(
  'task_leases.take',
  z.object({ name: z.string() }),
  (p: Slots<{ name: string; owner: string; lease_seconds: number; due_after_seconds: number }>) => `
  insert into task_leases as l (name, owner, lease_until) values (${p.name}, ${p.owner}, now() + ${p.lease_seconds}::float8 * interval '1 second')
  on conflict (name) do update set owner = excluded.owner, lease_until = excluded.lease_until
  where l.lease_until <= now() and (l.last_run_at is null or l.last_run_at <= now() - ${p.due_after_seconds}::float8 * interval '1 second')
  returning name`,
)

/** 0 if the lease is lost; another process may hold it. */
export const renew = count(
  'task_leases.renew',
  (p: Slots<{ name: string; owner: string; lease_seconds: number }>) => `
  update task_leases set lease_until = now() + ${p.lease_seconds}::float8 * interval '1 second'
  where name = ${p.name} and owner = ${p.owner} and lease_until > now()`,
)

export interface RunRecord {
  readonly name: string
  readonly owner: string
  readonly ran_seconds: number
  readonly result: string | null
  readonly error: string | null
}
/** Releases the lease and stores the result; does nothing if the lease was lost. */
export const finish = count(
  'task_leases.finish',
  (p: Slots<RunRecord>) => `
  update task_leases set lease_until = now(), last_run_at = now() - ${p.ran_seconds}::float8 * interval '1 second', last_result = ${p.result}::jsonb, last_error = ${p.error}::text
  where name = ${p.name} and owner = ${p.owner}`,
)

/** Releases the lease of an aborted run; the task stays due. */
export const release = count(
  'task_leases.release',
  (p: Slots<{ name: string; owner: string }>) => `update task_leases set lease_until = now() where name = ${p.name} and owner = ${p.owner}`,
)

/** Stores the latest run of a task that runs in every process. */
export const note = count(
  'task_leases.note',
  (p: Slots<RunRecord>) => `
  insert into task_leases as l (name, owner, lease_until, last_run_at, last_result, last_error)
  values (${p.name}, ${p.owner}, now(), now() - ${p.ran_seconds}::float8 * interval '1 second', ${p.result}::jsonb, ${p.error}::text)
  on conflict (name) do update set owner = excluded.owner, last_run_at = excluded.last_run_at, last_result = excluded.last_result, last_error = excluded.last_error`,
)

const Row = z.object({
  name: z.string(),
  last_run_at: z.string().nullable(),
  last_result: z.record(z.string(), z.number()).nullable(),
  last_error: z.string().nullable(),
  lease_owner: z.string().nullable(),
})
export const list = rows(
  'task_leases.list',
  Row,
  () =>
    `select name, last_run_at, last_result, last_error, case when lease_until > now() then owner end as lease_owner from task_leases order by name`,
)

/** Raises the statement timeout for the rest of the transaction. */
export const allowTaskTime = count('task_leases.allowTaskTime', () => `select set_config('statement_timeout', '60000', true)`)
