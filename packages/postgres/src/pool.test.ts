import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { emptyDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { PoolExhausted } from './errors.ts'
import { type Database, openDatabase } from './pool.ts'

const message = (letter: string, body: Buffer): Buffer => {
  const bytes = Buffer.concat([Buffer.from(`${letter}....`), body])
  bytes.writeInt32BE(bytes.length - 1, 1)
  return bytes
}
const greeting = Buffer.concat([message('R', Buffer.alloc(4)), message('Z', Buffer.from('I'))])
const farewell = message('E', Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to unexpected postmaster exit\0\0'))

/** Messages that the server sends to each connection before it closes it. */
let messages: Buffer[]
let url: string
let database: Database
const uncaught: unknown[] = []
beforeAll(async () => {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.once('data', () => socket.end(Buffer.concat(messages)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `postgresql://nobody:none@127.0.0.1:${(server.address() as AddressInfo).port}/none`
  // An error event without a listener would end the process.
  process.setUncaughtExceptionCaptureCallback((error) => uncaught.push(error))
  return () => {
    process.setUncaughtExceptionCaptureCallback(null)
    server.close()
  }
})
beforeEach(() => {
  uncaught.length = 0
  database = openDatabase({ url, schema: 'public', poolSize: 2 })
  return () => database.close()
})

const one = { name: 'one', text: 'select 1', values: [] }
const uses: readonly [string, () => Promise<unknown>][] = [
  ['a statement', () => database.query(one)],
  ['a look-up', () => database.query({ ...one, isLookUp: true })],
  ['a transaction', () => database.begin((tx) => tx.query(one))],
  ['an outer transaction', () => database.beginOuter((tx) => tx.query(one))],
]

test.each(uses)('[S33] a server that greets and ends the session at once fails %s, not the process', async (_, use) => {
  messages = [greeting, farewell]
  await expect(use()).rejects.toThrow(/connection/i)
  expect(uncaught).toEqual([])
  expect(database.pool).toMatchObject({ total: 0, waiting: 0 })
})

test.each(uses)('[S33] a server that greets and closes the connection fails %s, not the process', async (_, use) => {
  messages = [greeting]
  await expect(use()).rejects.toThrow(/connection/i)
  expect(uncaught).toEqual([])
  expect(database.pool).toMatchObject({ total: 0, waiting: 0 })
})

const endings = ['57P01', '57P02', '57P03', '57P04', '57P05', '25P03', '25P04']
test.each(endings)('a connection whose session ended with %s is not used again', async (code) => {
  const connections: Socket[] = []
  const error = message('E', Buffer.from(`SFATAL\0VFATAL\0C${code}\0Mthe session ends\0\0`))
  // Answers the first query with the error and keeps the connection open, as a half-open link does.
  const server = createServer((socket) => {
    connections.push(socket)
    socket.on('error', () => socket.destroy())
    socket.once('data', () => {
      socket.write(greeting)
      socket.once('data', () => socket.write(connections.length === 1 ? error : Buffer.concat([message('Z', Buffer.from('I'))])))
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sql = openDatabase({
    url: `postgresql://nobody:none@127.0.0.1:${(server.address() as AddressInfo).port}/none`,
    schema: 'public',
    poolSize: 1,
  })
  await expect(sql.query(one)).rejects.toMatchObject({ code })
  const next = sql.query(one).catch(() => undefined)
  await waitFor('a second connection', () => connections.length === 2)
  for (const socket of connections) socket.destroy()
  await next
  await sql.close()
  server.close()
})

test('[S33] a lost connection outside the pool does not end the process', async () => {
  messages = [greeting, farewell]
  const client = await database.connect()
  await expect(client.query('select 1')).rejects.toThrow(/connection/i)
  await client.end()
  expect(uncaught).toEqual([])
})

test('a caller that waits too long for a connection gets PoolExhausted', async () => {
  const { url: realUrl } = await emptyDatabase()
  const waits: number[] = []
  const observe = { query: () => undefined, wait: (ms: number) => waits.push(ms) }
  const sql = openDatabase({ url: realUrl, schema: 'public', poolSize: 1, connectTimeoutMs: 1_000, observe })
  const release = Promise.withResolvers<void>()
  const holder = sql.begin(async (tx) => {
    await tx.query(one)
    await release.promise
  })
  const isExhausted = (error: unknown) => error instanceof PoolExhausted
  const outcomes = [sql.query(one), sql.query({ ...one, isLookUp: true })].map((query) => query.catch(isExhausted))
  await waitFor('both callers to wait', () => sql.pool.waiting === 2 && sql.pool.oldestWaitMs > 0)
  // The later of the two is the only caller left when its time is over, and cannot be told from one whose connection never opened.
  expect(await Promise.all(outcomes)).toContain(true)
  release.resolve()
  await holder
  expect(waits).toHaveLength(3)
  await sql.close()
})
