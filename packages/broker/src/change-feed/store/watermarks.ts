// Watermarks: once a minute the lowest running transaction id. The cleanup of the change log uses them to find old rows without relying on
// clock order.
import { count, one, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

/** Truncated to the minute, so that many processes write one row. */
export const take = count(
  'feed_marks.take',
  () => `
  insert into feed_marks (taken_at, low_xid) values (date_trunc('minute', now()), pg_snapshot_xmin(pg_current_snapshot())) on conflict do nothing`,
)

/** The latest watermark older than the retention; null while there is none. */
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
