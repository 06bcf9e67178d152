// The server's side of change capture: what must be set, publication, slot, and what the catalogue says of the tables.
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import pg from 'pg'
import { ConnectorError } from './connector.ts'
import { type Lsn, parseLsn, type Relation } from './pgoutput.ts'
import { commaSeparated, quoted, quotedTable, tableParts } from './sql.ts'

type Config = Pick<PostgresqlCdcSource, 'tables' | 'createPublicationIfNotExists'>

const refuse = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)

export async function checkServer(client: pg.Client): Promise<{ version: number; systemId: string }> {
  const found = await client.query<{ level: string; version: string }>(
    `select current_setting('wal_level') as level, current_setting('server_version_num') as version`,
  )
  const { level, version } = found.rows[0]!
  if (level !== 'logical')
    throw refuse(`change capture needs wal_level = logical, and the server has ${level}: set it and restart the server`)
  const system = await client.query<{ id: string }>('select system_identifier::text as id from pg_control_system()').catch(() => undefined)
  return { version: Number(version), systemId: system?.rows[0]?.id ?? '' }
}

/** Full names as the catalogue has them, in the order of the flow. */
export async function resolveTables(client: pg.Client, tables: readonly string[]): Promise<string[]> {
  const names: string[] = []
  for (const table of tables) {
    const found = await client.query<{ name: string }>({
      text: `select n.nspname || '.' || c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace where c.oid = to_regclass($1)`,
      values: [quotedTable(table)],
    })
    if (found.rows[0] === undefined) throw refuse(`table ${table} does not exist`)
    names.push(found.rows[0].name)
  }
  return names
}

export async function ensurePublication(client: pg.Client, name: string, config: Config, tables: readonly string[]): Promise<void> {
  const list = (names: readonly string[]) => commaSeparated(names.map(quotedTable))
  const known = await client.query({ text: 'select 1 from pg_publication where pubname = $1', values: [name] })
  if (known.rows.length === 0) {
    if (!config.createPublicationIfNotExists) throw refuse(`publication ${name} does not exist, and createPublicationIfNotExists is off`)
    await client.query(`create publication ${quoted(name)} for table ${list(tables)}`)
    return
  }
  const found = await client.query<{ name: string }>({
    text: `select schemaname || '.' || tablename as name from pg_publication_tables where pubname = $1`,
    values: [name],
  })
  const missing = tables.filter((table) => !found.rows.some((row) => row.name === table))
  if (missing.length === 0) return
  if (!config.createPublicationIfNotExists) throw refuse(`publication ${name} lacks ${missing.join(', ')}`)
  await client.query(`alter publication ${quoted(name)} add table ${list(missing)}`)
}

export interface SlotState {
  readonly confirmed: Lsn
  readonly isLost: boolean
}

export async function readSlot(client: pg.Client, slot: string): Promise<SlotState | undefined> {
  const found = await client.query<{ plugin: string; database: string; confirmed: string | null; status: string | null; here: string }>({
    text: `select plugin, database, confirmed_flush_lsn::text as confirmed, wal_status as status, current_database() as here from pg_replication_slots where slot_name = $1`,
    values: [slot],
  })
  const row = found.rows[0]
  if (row === undefined) return undefined
  if (row.plugin !== 'pgoutput' || row.database !== row.here)
    throw refuse(
      `slot ${slot} belongs to ${row.plugin ?? 'physical replication'} of database ${row.database ?? '-'}: choose another slotName`,
    )
  return { confirmed: parseLsn(row.confirmed ?? '0/0'), isLost: row.status === 'lost' }
}

/** On a walsender connection, which must stay open until the snapshot is imported. */
export async function createSlot(client: pg.Client, slot: string, version: number): Promise<{ at: Lsn; snapshot: string }> {
  const how = version >= 150_000 ? `(SNAPSHOT 'export')` : 'EXPORT_SNAPSHOT'
  const made = await client.query<{ consistent_point: string; snapshot_name: string }>(
    `CREATE_REPLICATION_SLOT ${quoted(slot)} LOGICAL pgoutput ${how}`,
  )
  return { at: parseLsn(made.rows[0]!.consistent_point), snapshot: made.rows[0]!.snapshot_name }
}

export async function dropSlot(client: pg.Client, slot: string): Promise<void> {
  await client.query({ text: 'select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1', values: [slot] })
}

/** A table as the stream would describe it; the key is the replica identity's, as there. */
export async function readRelation(client: pg.Client, table: string): Promise<Relation> {
  const found = await client.query<{ id: string; identity: string; name: string; type: string; key: string | boolean }>({
    text: `select c.oid::text as id, c.relreplident as identity, a.attname as name, a.atttypid::text as type,
        c.relreplident = 'f' or coalesce(a.attnum = any(i.indkey), false) as key
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
      left join pg_index i on i.indrelid = c.oid and (case c.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident else false end)
      where c.oid = to_regclass($1) order by a.attnum`,
    values: [quotedTable(table)],
  })
  const first = found.rows[0]
  if (first === undefined) throw refuse(`table ${table} does not exist`)
  const { schema = 'public', name } = tableParts(table)
  const columns = found.rows.map((row) => ({ name: row.name, type: Number(row.type), isKey: String(row.key).startsWith('t') }))
  return { id: Number(first.id), schema, table: name, identity: first.identity, columns }
}

export const snapshotLiteral = (name: string): string => pg.escapeLiteral(name)
