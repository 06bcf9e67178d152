// Server side of change capture: required settings, the slot, and the columns of a table.
import pg from 'pg'
import { ConnectorError } from '../connector.ts'
import { quoteName, quoteTable, splitTableName } from '../postgresql/sql.ts'
import { type Lsn, parseLsn, type Relation } from './pgoutput.ts'

const configError = (message: string) => new ConnectorError({ class: 'config', type: 'unknown' }, message)

export async function checkServer(client: pg.Client): Promise<{ version: number; systemId: string }> {
  const result = await client.query<{ level: string; version: string }>(
    `select current_setting('wal_level') as level, current_setting('server_version_num') as version`,
  )
  const { level, version } = result.rows[0]!
  if (level !== 'logical')
    throw configError(`change capture needs wal_level = logical, and the server has ${level}: set it and restart the server`)
  const system = await client.query<{ id: string }>('select system_identifier::text as id from pg_control_system()').catch(() => undefined)
  return { version: Number(version), systemId: system?.rows[0]?.id ?? '' }
}

export interface SlotState {
  readonly confirmed: Lsn
  readonly isLost: boolean
}

export async function readSlot(client: pg.Client, slot: string): Promise<SlotState | undefined> {
  const result = await client.query<{ plugin: string; database: string; confirmed: string | null; status: string | null; here: string }>({
    text: `select plugin, database, confirmed_flush_lsn::text as confirmed, wal_status as status, current_database() as here from pg_replication_slots where slot_name = $1`,
    values: [slot],
  })
  const row = result.rows[0]
  if (row === undefined) return undefined
  if (row.plugin !== 'pgoutput' || row.database !== row.here)
    throw configError(
      `slot ${slot} belongs to ${row.plugin ?? 'physical replication'} of database ${row.database ?? '-'}: choose another slotName`,
    )
  return { confirmed: parseLsn(row.confirmed ?? '0/0'), isLost: row.status === 'lost' }
}

/** On a walsender connection, which must stay open until the snapshot is imported. Waits for all running transactions. A temporary slot
 *  ends with the connection. */
export async function createSlot(
  client: pg.Client,
  slot: { readonly name: string; readonly isTemporary: boolean },
  version: number,
): Promise<{ at: Lsn; snapshot: string }> {
  const how = version >= 150_000 ? `(SNAPSHOT 'export')` : 'EXPORT_SNAPSHOT'
  const result = await client.query<{ consistent_point: string; snapshot_name: string }>(
    `CREATE_REPLICATION_SLOT ${quoteName(slot.name)} ${slot.isTemporary ? 'TEMPORARY ' : ''}LOGICAL pgoutput ${how}`,
  )
  return { at: parseLsn(result.rows[0]!.consistent_point), snapshot: result.rows[0]!.snapshot_name }
}

export async function dropSlot(client: pg.Client, slot: string): Promise<void> {
  await client.query({ text: 'select pg_drop_replication_slot(slot_name) from pg_replication_slots where slot_name = $1', values: [slot] })
}

/** A table as the stream would describe it, with the key of its replica identity. */
export async function readRelation(client: pg.Client, table: string): Promise<Relation> {
  const result = await client.query<{ id: string; identity: string; name: string; type: string; key: string | boolean }>({
    text: `select c.oid::text as id, c.relreplident as identity, a.attname as name, a.atttypid::text as type,
        c.relreplident = 'f' or coalesce(a.attnum = any(i.indkey), false) as key
      from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
      left join pg_index i on i.indrelid = c.oid and (case c.relreplident when 'd' then i.indisprimary when 'i' then i.indisreplident else false end)
      where c.oid = to_regclass($1) order by a.attnum`,
    values: [quoteTable(table)],
  })
  const first = result.rows[0]
  if (first === undefined) throw configError(`table ${table} does not exist`)
  const { schema = 'public', name } = splitTableName(table)
  const columns = result.rows.map((row) => ({ name: row.name, type: Number(row.type), isKey: String(row.key).startsWith('t') }))
  return { id: Number(first.id), schema, table: name, identity: first.identity, columns }
}

export const snapshotLiteral = (name: string): string => pg.escapeLiteral(name)
