// Tables of a change-capture flow from the catalog: full names, and the ids under which rows may arrive. Rows of a partition arrive under
// the id of the root or, if the publication does not publish via the root, of the partition.
import type pg from 'pg'
import { ConnectorError } from '../connector.ts'
import { quoteTable } from '../postgresql/sql.ts'
import type { Relation } from './pgoutput.ts'

export interface CapturedTable {
  /** Schema and table, as in the stream. */
  readonly name: string
  readonly isPartitioned: boolean
  /** Partitioned ancestors of this table. */
  readonly ancestors: readonly string[]
  /** Its id and those of its descendants. */
  readonly ids: readonly number[]
}

type Row = { name: string; kind: string; ancestors: string; ids: string }

/** In the order of the flow's list. */
export async function readCapturedTables(client: pg.Client, tables: readonly string[]): Promise<CapturedTable[]> {
  const captured: CapturedTable[] = []
  for (const table of tables) {
    const result = await client.query<Row>({ text: tableQuery, values: [quoteTable(table)] })
    const row = result.rows[0]
    if (row === undefined) throw refuse(`table ${table} does not exist`)
    const [ancestors, ids] = [JSON.parse(row.ancestors) as string[], JSON.parse(row.ids) as number[]]
    captured.push({ name: row.name, isPartitioned: row.kind === 'p', ancestors, ids })
  }
  requireDisjoint(captured)
  return captured
}

const fullName = `n.nspname || '.' || c.relname`
const tableQuery = `with recursive below(id) as (
    select to_regclass($1)::oid union select i.inhrelid from pg_inherits i join below b on i.inhparent = b.id)
  select ${fullName} as name, c.relkind as kind,
    (select coalesce(json_agg(id::bigint), '[]')::text from below) as ids,
    (select coalesce(json_agg(an.nspname || '.' || a.relname), '[]')::text from pg_partition_ancestors(c.oid) p
      join pg_class a on a.oid = p.relid join pg_namespace an on an.oid = a.relnamespace where a.oid <> c.oid) as ancestors
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass($1)`

/** A row of both would be read twice in the snapshot and arrive once in the stream. */
function requireDisjoint(tables: readonly CapturedTable[]): void {
  const names = new Set(tables.map(({ name }) => name))
  for (const { name, ancestors } of tables) {
    const root = ancestors.find((ancestor) => names.has(ancestor))
    if (root !== undefined) throw refuse(`table ${name} is a partition of ${root}, and the flow lists both: list one of them`)
  }
}

/** Finds the listed table of a relation in the stream. */
export class TableIndex {
  readonly #byName: ReadonlySet<string>
  readonly #byId: ReadonlyMap<number, string>

  constructor(tables: readonly CapturedTable[]) {
    this.#byName = new Set(tables.map(({ name }) => name))
    this.#byId = new Map(tables.flatMap(({ name, ids }) => ids.map((id) => [id, name] as const)))
  }

  /** By name, else by id: the stream may name a partition, or a table by an earlier or later name. */
  find(relation: Relation): string | undefined {
    const name = `${relation.schema}.${relation.table}`
    return this.#byName.has(name) ? name : this.#byId.get(relation.id)
  }
}

const refuse = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)
