// What a polling source reads: the relation, and the types of the columns it reads by.
import type { PostgresqlSource as SourceConfig } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type pg from 'pg'
import { ConnectorError } from './connector.ts'
import { type KeyColumn, kindOf, type PageShape } from './postgresql-page.ts'
import { quotedTable } from './sql.ts'

export async function readShape(client: pg.Client, config: SourceConfig): Promise<PageShape> {
  const relation = config.query === undefined ? quotedTable(config.table ?? '') : `(${config.query.replace(/;\s*$/, '')}\n)`
  const { fields } = await client.query(`select * from ${relation} as q limit 0`)
  const oids = [...new Set(fields.map(({ dataTypeID }) => dataTypeID))]
  const types = await client.query<{ oid: string; type: string; category: string }>({
    text: 'select oid::text, format_type(oid, -1) as type, typcategory as category from pg_type where oid = any($1::oid[])',
    values: [oids],
  })
  const typeOf = new Map(types.rows.map((row) => [Number(row.oid), row]))
  const column = (name: string): KeyColumn | undefined => {
    const field = fields.find((each) => each.name === name)
    const type = field === undefined ? undefined : typeOf.get(field.dataTypeID)
    return type === undefined ? undefined : { name, type: type.type, kind: kindOf(type.category) }
  }
  const [change, order] = [column(config.changeTrackingColumn), column(config.orderByColumn)]
  const missing = change === undefined ? config.changeTrackingColumn : config.orderByColumn
  if (change === undefined || order === undefined)
    throw new ConnectorError(
      { class: 'config', type: 'unknown' },
      `there is no column ${missing} to read by: set changeTrackingColumn and orderByColumn`,
    )
  const isTime = (name: string) => column(name)?.kind === 'time'
  return { relation, change, order, hasCreated: isTime('created_at'), hasUpdated: isTime('updated_at'), limit: config.readBatchSize }
}

export async function createPolledTable(client: pg.Client, table: string): Promise<void> {
  await client.query(
    `create table if not exists ${table} ("id" bigserial primary key, "created_at" timestamptz not null default now(), "updated_at" timestamptz not null default now())`,
  )
}
