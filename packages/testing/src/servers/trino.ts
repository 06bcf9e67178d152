// A real Trino for tests: one server per run, a schema per test. Its tables are in memory, so it is not killed.
import { randomBytes } from 'node:crypto'
import type { NessieNamespace } from './nessie.ts'
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
  const created = schemaOn(url, catalog, `test_${randomBytes(6).toString('hex')}`)
  await created.run(`create schema ${catalog}.${created.schema}`)
  return created
}

/** The namespace of a Nessie as Trino sees it: an independent reader and writer of its tables. */
export async function trinoOnNessie({ url: catalogUrl, warehouse, namespace, s3 }: NessieNamespace): Promise<TrinoSchema> {
  const { url } = await callServers('trino', {})
  const lake = schemaOn(url, `lake_${new URL(catalogUrl).port}`, namespace)
  const properties = {
    'iceberg.catalog.type': 'rest',
    'iceberg.rest-catalog.uri': `${catalogUrl}/iceberg`,
    'iceberg.rest-catalog.warehouse': warehouse,
    'fs.native-s3.enabled': 'true',
    's3.endpoint': s3.endpoint,
    's3.region': s3.region,
    's3.path-style-access': 'true',
    's3.aws-access-key': s3.accessKey,
    's3.aws-secret-key': s3.secretAccessKey,
    // Another writer's snapshots are seen at once.
    'iceberg.metadata-cache.enabled': 'false',
  }
  const list = Object.entries(properties).map(([name, value]) => `"${name}" = '${value}'`)
  await lake.run(`create catalog if not exists ${lake.catalog} using iceberg with (${list.join(', ')})`)
  return lake
}

function schemaOn(url: string, catalog: string, schema: string): TrinoSchema {
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
  return { url, catalog, schema, run }
}

async function read(answer: Promise<Response>): Promise<Page> {
  return (await (await answer).json()) as Page
}
