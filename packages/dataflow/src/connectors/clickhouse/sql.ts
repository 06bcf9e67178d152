// Quotes names in ClickHouse SQL. Names from users are always quoted; no other text of users enters a statement, except for
// the source's query.

export const quoteName = (name: string): string => `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``

/** `table` or `database.table`. */
export const quoteTable = (table: string): string => table.split('.').map(quoteName).join('.')

/** The part before the last dot is the database; without one, the connection decides. */
export function splitTable(table: string, database: string): { database: string; name: string } {
  const at = table.lastIndexOf('.')
  return at < 0 ? { database, name: table } : { database: table.slice(0, at), name: table.slice(at + 1) }
}
