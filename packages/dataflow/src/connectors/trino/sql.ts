// Quotes names and texts in Trino SQL. Names from users are always quoted; no other text of users enters a statement, except for the
// source's query.

export const quoteName = (name: string): string => `"${name.replaceAll('"', '""')}"`

export const quoteText = (text: string): string => `'${text.replaceAll("'", "''")}'`

export interface TablePlace {
  readonly catalog: string
  readonly schema: string
  readonly table: string
}

/** `table`, `schema.table` or `catalog.schema.table`. */
export function toPlace(table: string, defaults: { readonly catalog: string; readonly schema: string }): TablePlace {
  const parts = table.split('.')
  const [name, schema, catalog] = [parts.at(-1) ?? '', parts.at(-2), parts.at(-3)]
  return { catalog: catalog ?? defaults.catalog, schema: schema ?? defaults.schema, table: name }
}

export const quotePlace = ({ catalog, schema, table }: TablePlace): string => [catalog, schema, table].map(quoteName).join('.')
