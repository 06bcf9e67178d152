// Sealed columns of plans, for changing the key. Contents have up to 8 MiB and results up to 1 MiB, so pages are short.
import { count, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })
type Page = { after: string; since: string | null }
type Put = { id: string; was: Buffer; sealed: Buffer }

export const contentSample = rows(
  'sealed_plans.contentSample',
  Sealed,
  () => `select id, content_sealed as sealed from plans order by id desc limit 1`,
)
export const contentPage = rows(
  'sealed_plans.contentPage',
  Sealed,
  (p: Slots<Page>) => `
  select id, content_sealed as sealed from plans
  where id > ${p.after}::uuid and (${p.since}::timestamptz is null or created_at >= ${p.since}) order by id limit 2`,
)
/** Compare-and-set: a row that changed concurrently is left for the next pass. */
export const putContent = count(
  'sealed_plans.putContent',
  (p: Slots<Put>) => `update plans set content_sealed = ${p.sealed}::bytea where id = ${p.id}::uuid and content_sealed = ${p.was}::bytea`,
)

export const changesSample = rows(
  'sealed_plans.changesSample',
  Sealed,
  () => `select id, changes_sealed as sealed from plan_results where changes_sealed is not null order by id desc limit 1`,
)
export const changesPage = rows(
  'sealed_plans.changesPage',
  Sealed,
  (p: Slots<Page>) => `
  select id, changes_sealed as sealed from plan_results
  where id > ${p.after}::uuid and changes_sealed is not null and (${p.since}::timestamptz is null or coalesce(at, created_at) >= ${p.since}) order by id limit 8`,
)
export const putChanges = count(
  'sealed_plans.putChanges',
  (p: Slots<Put>) =>
    `update plan_results set changes_sealed = ${p.sealed}::bytea where id = ${p.id}::uuid and changes_sealed = ${p.was}::bytea`,
)
