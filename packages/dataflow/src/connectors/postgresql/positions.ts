// Positions of a flow's partitions in the target database, moved in the transaction of the batch: a batch is written exactly if its
// position is. The epoch fences: a later owner rolls back an earlier writer's batch. A move names the position it expects, so that of two
// attempts only one commits.

import type { BatchStatement } from '@brokkr/postgres'
import type pg from 'pg'
import type { Partition, Position } from '../connector.ts'
import { sqlStateOf } from './errors.ts'
import { quoteName } from './sql.ts'
import { textArray } from './text-array.ts'

export interface PositionsTable {
  /** Quoted, in the target's schema. */
  readonly table: string
  readonly flow: string
}

/** Creates a missing table; returns the reason if that is not permitted. */
export async function openPositions(client: pg.Client, schema: string | undefined): Promise<{ table: string } | { reason: string }> {
  const result = await client.query<{ name: string }>({ text: 'select coalesce($1, current_schema()) as name', values: [schema ?? null] })
  const name = result.rows[0]?.name
  if (name === undefined || name === null) return { reason: 'there is no schema for the table of positions' }
  const table = `${quoteName(name)}.brokkr_positions`
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
  const result = await client.query<{ oid: string | null }>({ text: 'select to_regclass($1) as oid', values: [table] })
  return result.rows[0]?.oid !== null
}

export interface OwnedPosition {
  readonly position: Position | undefined
  readonly epoch: number
}

/** Takes over the sources; without a list, all stored ones. */
export async function takeOver(
  client: pg.Client,
  { table, flow }: PositionsTable,
  sources: readonly string[],
  epoch: number,
): Promise<Map<string, OwnedPosition>> {
  const result = await client.query<{ source: string; position: string | null; epoch: string }>({
    text: `insert into ${table} as p (flow, source, position, epoch) select $1, s, null, $3 from unnest($2::text[]) s order by s
      on conflict (flow, source) do update set epoch = greatest(p.epoch + 1, excluded.epoch), updated_at = now()
      returning source, position::text, epoch::text`,
    values: [flow, sources, epoch],
  })
  return new Map(
    result.rows.map((row) => [
      row.source,
      { position: row.position === null ? undefined : (JSON.parse(row.position) as Position), epoch: Number(row.epoch) },
    ]),
  )
}

export async function listStoredSources(client: pg.Client, { table, flow }: PositionsTable, prefix: string): Promise<string[]> {
  const result = await client.query<{ source: string }>({
    text: `select source from ${table} where flow = $1 and starts_with(source, $2) order by source`,
    values: [flow, prefix],
  })
  return result.rows.map(({ source }) => source)
}

/** Stored sources. */
export async function readPositions(
  client: pg.Client,
  { table, flow }: PositionsTable,
  sources: readonly string[],
): Promise<Map<string, Position>> {
  const result = await client.query<{ source: string; position: string }>({
    text: `select source, position::text from ${table} where flow = $1 and source = any($2::text[]) and position is not null`,
    values: [flow, sources],
  })
  return new Map(result.rows.map(({ source, position }) => [source, JSON.parse(position) as Position]))
}

/** `any`: not read yet. */
export type ExpectedPosition = 'any' | { readonly position: Position | undefined }

export interface Move {
  readonly source: string
  readonly position: Position
  readonly epoch: number
  readonly expected: ExpectedPosition
}

/** First in the transaction, so that a fenced writer fails before it writes, and in one order, so that two writers cannot deadlock. A
 *  position that another writer took over or moved divides by zero: the server rolls back without a check by the client. The condition
 *  is evaluated on the locked row, after an earlier transaction that holds it has ended. */
export function moveStatement({ table, flow }: PositionsTable, moves: readonly Move[]): BatchStatement {
  const sorted = moves.toSorted((a, b) => (a.source < b.source ? -1 : 1))
  return {
    text: `with moved as (
        insert into ${table} as p (flow, source, position, epoch)
        select $1::text, u.source, u.position::jsonb, u.epoch::bigint from unnest($2::text[], $3::text[], $4::text[]) as u(source, position, epoch)
        on conflict (flow, source) do update set position = excluded.position, epoch = excluded.epoch, updated_at = now()
        where p.epoch <= excluded.epoch and (coalesce(p.position, 'null') = $5::jsonb -> p.source) is not false
        returning 1)
      select 1 / (count(*) = cardinality($2::text[]))::int from moved`,
    values: [
      flow,
      textArray(sorted.map(({ source }) => source)),
      textArray(sorted.map(({ position }) => JSON.stringify(position))),
      textArray(sorted.map(({ epoch }) => String(epoch))),
      JSON.stringify(Object.fromEntries(sorted.flatMap(toExpectedEntry))),
    ],
  }
}

const toExpectedEntry = ({ source, expected }: Move): [string, Position | null][] =>
  expected === 'any' ? [] : [[source, expected.position ?? null]]

/** The server did not move a position: its epoch or value differs from what the move expects. */
export class MoveRejected extends Error {
  override name = 'MoveRejected'
}

/** Converts an error of `moveStatement`. */
export const toMoveError = (thrown: unknown): unknown =>
  sqlStateOf(thrown) !== divisionByZero ? thrown : new MoveRejected('the positions were not moved', { cause: thrown })
const divisionByZero = '22012'

export async function forgetPositions(client: pg.Client, { table, flow }: PositionsTable): Promise<void> {
  await client.query({ text: `update ${table} set position = null, updated_at = now() where flow = $1`, values: [flow] })
}

export const sourceName = (origin: string, partition: Partition): string => `${origin}/${partition}`

/** Kafka partitions are numbers, others are names. */
export function toPartition(source: string, origin: string): Partition {
  const name = source.slice(origin.length + 1)
  return /^[0-9]+$/.test(name) ? Number(name) : name
}
