// Text, request and output of work orders, open and finished.
import { count, maybe, rows, type Slots } from '@brokkr/postgres'
import { z } from 'zod'

export const insert = count(
  'work_order_contents.insert',
  (p: Slots<{ id: string; yaml_sealed: Buffer; yaml_bytes: number; request: string }>) => `
  insert into work_order_contents (id, yaml_sealed, yaml_bytes, request)
  values (${p.id}::uuid, ${p.yaml_sealed}::bytea, ${p.yaml_bytes}::int, ${p.request}::jsonb)`,
)

const Output = z.object({
  output_sealed: z.instanceof(Buffer).nullable(),
  output_attempt: z.int().nullable(),
  output_start: z.int(),
  output_end: z.int(),
})
export type StoredOutputRow = z.output<typeof Output>

export const lockOutput = maybe(
  'work_order_contents.lockOutput',
  Output,
  (p: Slots<{ id: string }>) => `
  select output_sealed, output_attempt, output_start, output_end from work_order_contents where id = ${p.id}::uuid for no key update`,
)

export const readOutput = maybe(
  'work_order_contents.readOutput',
  Output.extend({ is_finished: z.boolean() }),
  (p: Slots<{ id: string }>) => `
  select t.output_sealed, t.output_attempt, t.output_start, t.output_end, not exists (select from work_orders w where w.id = t.id) as is_finished
  from work_order_contents t where t.id = ${p.id}::uuid`,
)

export const putOutput = count(
  'work_order_contents.putOutput',
  (p: Slots<{ id: string; sealed: Buffer; attempt: number; start: number; end: number }>) => `
  update work_order_contents set output_sealed = ${p.sealed}::bytea, output_attempt = ${p.attempt}::int, output_start = ${p.start}::bigint,
    output_end = ${p.end}::bigint, updated_at = now() where id = ${p.id}::uuid`,
)

const Sealed = z.object({ id: z.string(), sealed: z.instanceof(Buffer) })

const page = (name: string, column: string) =>
  rows(
    `work_order_contents.${name}`,
    Sealed,
    (p: Slots<{ after: string; since: string | null }>) => `
  select id, ${column} as sealed from (
    select id, ${column}, sum(octet_length(${column})) over (order by id) - octet_length(${column}) as bytes_before from (
      select id, ${column} from work_order_contents
      where id > ${p.after}::uuid and ${column} is not null and (${p.since}::timestamptz is null or updated_at >= ${p.since}) order by id limit 100) page) measured
  where bytes_before < 8388608 order by id`,
  )
const sample = (name: string, column: string) =>
  rows(
    `work_order_contents.${name}`,
    Sealed,
    () => `select id, ${column} as sealed from work_order_contents where ${column} is not null order by id desc limit 1`,
  )
/** Compare-and-set: a row that changed concurrently is left for the next pass. */
const put = (name: string, column: string) =>
  count(
    `work_order_contents.${name}`,
    (p: Slots<{ id: string; was: Buffer; sealed: Buffer }>) => `
  update work_order_contents set ${column} = ${p.sealed}::bytea where id = ${p.id}::uuid and ${column} = ${p.was}::bytea`,
  )

export const yamlSample = sample('yamlSample', 'yaml_sealed')
export const yamlPage = page('yamlPage', 'yaml_sealed')
export const putYaml = put('putYaml', 'yaml_sealed')
export const outputSample = sample('outputSample', 'output_sealed')
export const outputPage = page('outputPage', 'output_sealed')
export const putSealedOutput = put('putSealedOutput', 'output_sealed')
