// What PostgreSQL says of a statement before it runs: the names of its result's columns, by parse and describe of the wire
// protocol. Nothing is executed, so no parameter is needed.
import type pg from 'pg'

interface Connection {
  parse(query: { name: string; text: string; types: number[] }): void
  describe(what: { type: 'S'; name: string }): void
  sync(): void
}

/** The columns in order; empty for a statement that returns no rows. Rejects with the server's own error. */
export function readColumns(client: pg.Client, text: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    let columns: string[] = []
    let failed: Error | undefined
    const described = {
      submit: (connection: Connection) => {
        connection.parse({ name: '', text, types: [] })
        connection.describe({ type: 'S', name: '' })
        connection.sync()
      },
      handleRowDescription: ({ fields }: { fields: { name: string }[] }) => {
        columns = fields.map((field) => field.name)
      },
      handleError: (error: Error) => {
        failed = error
      },
      handleReadyForQuery: () => (failed === undefined ? resolve(columns) : reject(failed)),
    }
    client.query(described as unknown as pg.Submittable)
  })
}
