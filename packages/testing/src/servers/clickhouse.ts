// A real ClickHouse for tests: one server per run, a database per test. Where a test must kill it, one of its own.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type ClickhouseAddress, type ClickhouseServer, startClickhouse } from './clickhouse-server.ts'
import { callServers } from './owner/client.ts'

export type { ClickhouseServer }

/** A database of its own, and a way to run SQL in it. */
export type ClickhouseDatabase = {
  readonly name: string
  /** For a flow's connectionString. */
  readonly url: string
  /** The same for a user with a password. */
  readonly appUrl: string
  readonly server: string
  /** Runs a statement; returns its text. */
  run(sql: string): Promise<string>
  /** Runs a query; one object per row. */
  rows<T = Record<string, unknown>>(sql: string): Promise<T[]>
}

export async function clickhouseDatabase(): Promise<ClickhouseDatabase> {
  return databaseOn(await callServers('clickhouse', {}))
}

/** A server of its own, to be killed and restarted. It ends with this process, the test file or the run, whichever is first. */
export async function privateClickhouse(): Promise<ClickhouseServer & { database(): Promise<ClickhouseDatabase> }> {
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const server = await startClickhouse({ dir: join(folder, 'clickhouse') })
  const noted = () => callServers('loan.note', { folder, processes: [server.process] })
  await noted()
  return Object.assign(Object.create(server) as ClickhouseServer, {
    start: async () => {
      await server.start()
      await noted()
    },
    database: () => databaseOn(server.address),
  })
}

async function databaseOn({ url, app }: ClickhouseAddress): Promise<ClickhouseDatabase> {
  const name = `test_${randomBytes(6).toString('hex')}`
  const send = async (database: string, sql: string, format: string): Promise<string> => {
    const settings = new URLSearchParams({ database, default_format: format, output_format_json_quote_64bit_integers: '0' })
    const answer = await fetch(`${url}/?${settings}`, { method: 'POST', body: sql, signal: AbortSignal.timeout(120_000) })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${sql}: ${text}`)
    return text
  }
  await send('default', `create database ${name}`, 'TabSeparated')
  return {
    name,
    url: `${url}/${name}`,
    appUrl: `${url.replace('://', `://${app.username}:${app.password}@`)}/${name}`,
    server: url,
    run: (sql) => send(name, sql, 'TabSeparated'),
    rows: async <T>(sql: string) =>
      (await send(name, sql, 'JSONEachRow'))
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as T),
  }
}
