// Once a minute, the lowest transaction that was running then: how the clean-up of the change log knows what is old without
// trusting a clock for order.
import { z } from 'zod'
import { count, one, type Slots } from './sql.ts'

/** Cut to the minute, so that many processes write one. */
export const take = count(
  'feed_marks.take',
  () => `
  insert into feed_marks (taken_at, low_xid) values (date_trunc('minute', now()), pg_snapshot_xmin(pg_current_snapshot())) on conflict do nothing`,
)

/** What the newest mark older than the retention says; null while there is none. */
export const lowXidBefore = one(
  'feed_marks.lowXidBefore',
  z.object({ low_xid: z.string().nullable() }),
  (p: Slots<{ retention_hours: number }>) => `
  select (select low_xid::text from feed_marks where taken_at < now() - ${p.retention_hours}::float8 * interval '1 hour' order by taken_at desc limit 1) as low_xid`,
)

export const removeOld = count(
  'feed_marks.removeOld',
  (p: Slots<{ retention_hours: number }>) => `
  delete from feed_marks where taken_at < now() - 2 * ${p.retention_hours}::float8 * interval '1 hour'`,
)
