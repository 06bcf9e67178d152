// Reads the relation of a polling source and the types of its key columns.
import type { PostgresqlSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type pg from 'pg'
import { ConnectorError } from '../connector.ts'
import { type KeyColumn, type PageShape, toKeyKind } from './page.ts'
import { quoteTable } from './sql.ts'

export async function readShape(client: pg.Client, config: SourceConfig): Promise<PageShape> {
  const relation = config.query === undefined ? quoteTable(config.table ?? '') : `(${config.query.replace(/;\s*$/, '')}\n)`
  const { fields } = await client.query(`select * from ${relation} as q limit 0`)
  const oids = [...new Set(fields.map(({ dataTypeID }) => dataTypeID))]
  const types = await client.query<{ oid: string; type: string; category: string }>({
    text: 'select oid::text, format_type(oid, -1) as type, typcategory as category from pg_type where oid = any($1::oid[])',
    values: [oids],
  })
  const typesByOid = new Map(types.rows.map((row) => [Number(row.oid), row]))
  const column = (name: string): KeyColumn | undefined => {
    const field = fields.find((each) => each.name === name)
    const type = field === undefined ? undefined : typesByOid.get(field.dataTypeID)
    return type === undefined ? undefined : { name, type: type.type, kind: toKeyKind(type.category) }
  }
  const [change, order] = [column(config.changeTrackingColumn), column(config.orderByColumn)]
  const missingColumn = change === undefined ? config.changeTrackingColumn : config.orderByColumn
  if (change === undefined || order === undefined)
    throw new ConnectorError(
      { class: 'config', type: 'unknown' },
      `column ${missingColumn} does not exist: set changeTrackingColumn and orderByColumn`,
    )
  const isTime = (name: string) => column(name)?.kind === 'time'
  const [hasCreated, hasUpdated] = [isTime('created_at'), isTime('updated_at')]
  const field = fields.find((each) => each.name === change.name)!
  const canBeNull = config.query !== undefined || !(await isNotNull(client, field))
  const fallback = change.name === 'updated_at' && hasCreated && canBeNull ? column('created_at') : undefined
  return { relation, change, fallback, order, hasCreated, hasUpdated, limit: config.readBatchSize }
}

/** Of a table's column; in a query, an outer join can make a not-null column null. */
async function isNotNull(client: pg.Client, { tableID, columnID }: pg.FieldDef): Promise<boolean> {
  const result = await client.query<{ not_null: string }>({
    text: 'select attnotnull::text as not_null from pg_attribute where attrelid = $1 and attnum = $2',
    values: [tableID, columnID],
  })
  return result.rows[0]?.not_null === 'true'
}

export async function createPolledTable(client: pg.Client, table: string): Promise<void> {
  await client.query(
    `create table if not exists ${table} ("id" bigserial primary key, "created_at" timestamptz not null default now(), "updated_at" timestamptz not null default now())`,
  )
}
