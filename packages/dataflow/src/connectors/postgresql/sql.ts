// Quotes names in SQL. Names from users are always quoted; no other text of users enters a statement, except for the source's query.
import pg from 'pg'

/** One identifier. */
export const quoteName = (name: string): string => pg.escapeIdentifier(name)

/** `table` or `schema.table`, as the flow's rules allow: no dots inside a part. */
export function quoteTable(table: string): string {
  return table
    .split('.')
    .map((part) => quoteName(part))
    .join('.')
}

/** Schema and name; without a schema the search path decides. */
export function splitTableName(table: string): { schema: string | undefined; name: string } {
  const parts = table.split('.')
  return parts.length === 1 ? { schema: undefined, name: table } : { schema: parts[0], name: parts.slice(1).join('.') }
}

export const commaSeparated = (parts: readonly string[]): string => parts.join(', ')
