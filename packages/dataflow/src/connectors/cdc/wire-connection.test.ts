import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import pg from 'pg'
import { expect, test } from 'vitest'
import { getWireConnection } from './wire-connection.ts'

test('package.json pins pg to an exact version', () => {
  const manifest = JSON.parse(readFileSync(join(import.meta.dirname, '../../../package.json'), 'utf8')) as {
    dependencies: Record<string, string>
  }
  expect(manifest.dependencies['pg']).toMatch(/^\d+\.\d+\.\d+$/)
})

test('a pg client offers the connection that replication uses', async () => {
  const database = await emptyDatabase()
  const client = new pg.Client(database.url)
  await client.connect()
  const connection = getWireConnection(client)
  expect(connection.stream.readyState).toBe('open')
  expect(typeof connection.sendCopyFromChunk).toBe('function')
  const chunks: Buffer[] = []
  connection.on('copyData', ({ chunk }: { chunk: Buffer }) => void chunks.push(Buffer.from(chunk)))
  // Without a query of its own for COPY, pg rejects the statement after the server's data arrived as events.
  await client.query(`copy (values ('a'), ('b')) to stdout`).catch(() => undefined)
  expect(Buffer.concat(chunks).toString()).toBe('a\nb\n')
  await client.end()
})

test('a pg client reports COPY BOTH as replicationStart and sends status on it', async () => {
  const database = await emptyDatabase()
  const client = new pg.Client({ connectionString: database.url, replication: 'database' } as pg.ClientConfig)
  client.on('error', () => undefined)
  await client.connect()
  const connection = getWireConnection(client)
  const started = new Promise<void>((resolve) => connection.once('replicationStart', () => resolve()))
  const keepalive = new Promise<number>((resolve) => connection.on('copyData', ({ chunk }: { chunk: Buffer }) => resolve(chunk[0]!)))
  const { rows } = await client.query<{ xlogpos: string }>('IDENTIFY_SYSTEM')
  void client.query(`START_REPLICATION PHYSICAL ${rows[0]!.xlogpos}`).catch(() => undefined)
  await started
  const status = Buffer.alloc(34)
  status.write('r')
  status.writeUInt8(1, 33) // asks the server for a keepalive
  connection.sendCopyFromChunk(status)
  expect([0x6b, 0x77]).toContain(await keepalive)
  connection.stream.destroy()
})
