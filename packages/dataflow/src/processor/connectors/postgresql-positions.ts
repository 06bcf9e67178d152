// Where a flow's partitions stand, kept in the target database and moved in the batch's own transaction: a batch is there exactly when
// its position is. The epoch fences: whoever asked later took the partition over, and the earlier writer's batch is rolled back.
import type pg from 'pg'
import { ConnectorError, type Partition, type Position } from './connector.ts'
import { sqlStateOf } from './postgresql-errors.ts'
import type { Statement } from './postgresql-trip.ts'
import { quoted } from './sql.ts'
import { textArray } from './text-array.ts'

export interface PositionsTable {
  /** Quoted, in the target's schema. */
  readonly table: string
  readonly flow: string
}

/** Makes the table where it is missing; the reason when that is not allowed. */
export async function openPositions(client: pg.Client, schema: string | undefined): Promise<{ table: string } | { reason: string }> {
  const found = await client.query<{ name: string }>({ text: 'select coalesce($1, current_schema()) as name', values: [schema ?? null] })
  const name = found.rows[0]?.name
  if (name === undefined || name === null) return { reason: 'there is no schema to keep positions in' }
  const table = `${quoted(name)}.brokkr_positions`
  try {
    if (!(await exists(client, table)))
      await client.query(
        `create table if not exists ${table} (flow text not null, source text not null, position jsonb, epoch bigint not null, updated_at timestamptz not null default now(), primary key (flow, source))`,
      )
    const may = await client.query<{ may: boolean | string }>({
      text: `select has_table_privilege($1, 'select') and has_table_privilege($1, 'insert') and has_table_privilege($1, 'update') as may`,
      values: [table],
    })
    return String(may.rows[0]?.may).startsWith('t') ? { table } : { reason: `the role may not read and write ${table}` }
  } catch (thrown) {
    if ((thrown as { code?: unknown }).code !== '42501') throw thrown
    return { reason: `the role may not create ${table}: grant it CREATE on schema ${name}, or create the table for it` }
  }
}

async function exists(client: pg.Client, table: string): Promise<boolean> {
  const found = await client.query<{ oid: string | null }>({ text: 'select to_regclass($1) as oid', values: [table] })
  return found.rows[0]?.oid !== null
}

export interface Taken {
  readonly position: Position | undefined
  readonly epoch: number
}

/** Takes the sources over; without a list, all that are there. */
export async function takeOver(
  client: pg.Client,
  { table, flow }: PositionsTable,
  sources: readonly string[],
  epoch: number,
): Promise<Map<string, Taken>> {
  const found = await client.query<{ source: string; position: string | null; epoch: string }>({
    text: `insert into ${table} as p (flow, source, position, epoch) select $1, s, null, $3 from unnest($2::text[]) s order by s
      on conflict (flow, source) do update set epoch = greatest(p.epoch + 1, excluded.epoch), updated_at = now()
      returning source, position::text, epoch::text`,
    values: [flow, sources, epoch],
  })
  return new Map(
    found.rows.map((row) => [
      row.source,
      { position: row.position === null ? undefined : (JSON.parse(row.position) as Position), epoch: Number(row.epoch) },
    ]),
  )
}

export async function knownSources(client: pg.Client, { table, flow }: PositionsTable, prefix: string): Promise<string[]> {
  const found = await client.query<{ source: string }>({
    text: `select source from ${table} where flow = $1 and starts_with(source, $2) order by source`,
    values: [flow, prefix],
  })
  return found.rows.map(({ source }) => source)
}

/** Those that are there. */
export async function readPositions(
  client: pg.Client,
  { table, flow }: PositionsTable,
  sources: readonly string[],
): Promise<Map<string, Position>> {
  const found = await client.query<{ source: string; position: string }>({
    text: `select source, position::text from ${table} where flow = $1 and source = any($2::text[]) and position is not null`,
    values: [flow, sources],
  })
  return new Map(found.rows.map(({ source, position }) => [source, JSON.parse(position) as Position]))
}

export interface Move {
  readonly source: string
  readonly position: Position
  readonly epoch: number
}

/** First in the transaction, so that a fenced writer learns it before it wrote anything, and in one order, so that two cannot wait for each
 *  other. A position that another has taken over divides by zero: the server itself rolls back, so nobody has to look before the commit. */
export function moveStatement({ table, flow }: PositionsTable, moves: readonly Move[]): Statement {
  const sorted = moves.toSorted((a, b) => (a.source < b.source ? -1 : 1))
  return {
    text: `with moved as (
        insert into ${table} as p (flow, source, position, epoch)
        select $1::text, u.source, u.position::jsonb, u.epoch::bigint from unnest($2::text[], $3::text[], $4::text[]) as u(source, position, epoch)
        on conflict (flow, source) do update set position = excluded.position, epoch = excluded.epoch, updated_at = now() where p.epoch <= excluded.epoch
        returning 1)
      select 1 / (count(*) = cardinality($2::text[]))::int from moved`,
    values: [
      flow,
      textArray(sorted.map(({ source }) => source)),
      textArray(sorted.map(({ position }) => JSON.stringify(position))),
      textArray(sorted.map(({ epoch }) => String(epoch))),
    ],
  }
}

/** What an error of `moveStatement` means. */
export const moveError = (thrown: unknown): unknown =>
  sqlStateOf(thrown) !== divisionByZero
    ? thrown
    : new ConnectorError(
        { class: 'fenced', type: 'unknown' },
        'another processor has taken over the positions of this flow in the target database',
      )
const divisionByZero = '22012'

export async function forgetPositions(client: pg.Client, { table, flow }: PositionsTable): Promise<void> {
  await client.query({ text: `update ${table} set position = null, updated_at = now() where flow = $1`, values: [flow] })
}

export const sourceName = (origin: string, partition: Partition): string => `${origin}/${partition}`

/** Partitions of Kafka are numbers, all others names. */
export function partitionOf(source: string, origin: string): Partition {
  const name = source.slice(origin.length + 1)
  return /^[0-9]+$/.test(name) ? Number(name) : name
}
