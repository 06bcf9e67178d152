// Columns of a table from the catalog, and conversion of a payload's value to text for a column.
import { numberText } from '@brokkr/contract/dataflow/language/decimal.ts'
import { isRawNumber, type Json } from '@brokkr/contract/dataflow/language/json.ts'
import type pg from 'pg'

export interface Column {
  readonly name: string
  /** Type for casts, without length: an explicit cast to varchar(3) would truncate instead of fail. */
  readonly type: string
  readonly kind: 'json' | 'array' | 'plain'
  /** Generated columns are never written. */
  readonly isGenerated: boolean
}
export type Columns = ReadonlyMap<string, Column>

/** Undefined if the table does not exist. `table` is quoted. */
export async function readColumns(client: pg.Client, table: string): Promise<Columns | undefined> {
  const result = await client.query<{ name: string; type: string; kind: string; generated: string }>({
    text: `select a.attname as name, format_type(a.atttypid, -1) as type, a.attgenerated as generated,
        case when t.typname in ('json', 'jsonb') then 'json' when t.typcategory = 'A' then 'array' else 'plain' end as kind
      from pg_attribute a join pg_type t on t.oid = a.atttypid
      where a.attrelid = to_regclass($1) and a.attnum > 0 and not a.attisdropped order by a.attnum`,
    values: [table],
  })
  if (result.rows.length === 0) return undefined
  return new Map(
    result.rows.map(({ name, type, kind, generated }) => [
      name,
      { name, type, kind: kind as Column['kind'], isGenerated: generated !== '' },
    ]),
  )
}

/** Text that the server accepts for the column's type; null is NULL. */
export function columnText(column: Column, value: Json): string | null {
  if (value === null) return null
  if (column.kind === 'json') return JSON.stringify(value)
  if (column.kind === 'array' && Array.isArray(value)) return arrayText(value)
  return plainText(value)
}

function plainText(value: Exclude<Json, null>): string {
  if (typeof value === 'string') return value
  if (typeof value === 'number' || isRawNumber(value)) return typeof value === 'number' ? numberText(value) : value.rawJSON
  return typeof value === 'boolean' ? String(value) : JSON.stringify(value)
}

/** PostgreSQL's array notation: {1,NULL,"a,b"}. */
function arrayText(values: readonly Json[]): string {
  const items = values.map((item) => {
    if (item === null) return 'NULL'
    if (Array.isArray(item)) return arrayText(item)
    return quotedItem(plainText(item))
  })
  return `{${items.join(',')}}`
}

const quotedItem = (text: string): string => `"${text.replace(/["\\]/g, '\\$&')}"`

/** A row in COPY's text format. */
export const copyRow = (values: readonly (string | null)[]): string =>
  `${values.map((value) => (value === null ? '\\N' : value.replace(/[\\\n\r\t]/g, escaped))).join('\t')}\n`

const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }
const escaped = (character: string): string => escapes[character]!
