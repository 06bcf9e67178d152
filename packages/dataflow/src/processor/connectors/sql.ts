// Names in SQL. Whatever a user named is quoted; nothing else of a user enters a statement, but for the source's own query.
import pg from 'pg'

/** One identifier. */
export const quoted = (name: string): string => pg.escapeIdentifier(name)

/** `table` or `schema.table`, as the flow's rules allow it: no dots inside a part. */
export function quotedTable(table: string): string {
  return table
    .split('.')
    .map((part) => quoted(part))
    .join('.')
}

/** Schema and name; the schema is undefined where the search path decides. */
export function tableParts(table: string): { schema: string | undefined; name: string } {
  const parts = table.split('.')
  return parts.length === 1 ? { schema: undefined, name: table } : { schema: parts[0], name: parts.slice(1).join('.') }
}

export const commaSeparated = (parts: readonly string[]): string => parts.join(', ')
