// A real Trino for tests: one server per run, a schema per test. Its tables are in memory, so it is not killed.
import { randomBytes } from 'node:crypto'
import { callServers } from './owner/client.ts'

export type TrinoSchema = {
  readonly url: string
  readonly catalog: string
  readonly schema: string
  /** Runs a statement in the schema; returns its rows as the server sends them. */
  run(sql: string): Promise<unknown[][]>
}

type Page = { nextUri?: string; data?: unknown[][]; error?: { message: string } }

export async function trinoSchema(): Promise<TrinoSchema> {
  const { url, catalog } = await callServers('trino', {})
  const schema = `test_${randomBytes(6).toString('hex')}`
  const run = async (sql: string): Promise<unknown[][]> => {
    const headers = {
      'x-trino-user': 'test',
      'x-trino-catalog': catalog,
      'x-trino-schema': schema,
      'x-trino-time-zone': 'UTC',
      'x-trino-client-capabilities': 'PARAMETRIC_DATETIME',
    }
    const rows: unknown[][] = []
    let page = await read(fetch(`${url}/v1/statement`, { method: 'POST', headers, body: sql }))
    for (;;) {
      if (page.error !== undefined) throw new Error(`${sql}: ${page.error.message}`)
      rows.push(...(page.data ?? []))
      if (page.nextUri === undefined) return rows
      page = await read(fetch(page.nextUri, { headers }))
    }
  }
  await run(`create schema ${catalog}.${schema}`)
  return { url, catalog, schema, run }
}

async function read(answer: Promise<Response>): Promise<Page> {
  return (await (await answer).json()) as Page
}
