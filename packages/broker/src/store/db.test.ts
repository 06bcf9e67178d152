import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { type Database, openDatabase } from './db.ts'
import { migrate } from './migrate.ts'

const message = (letter: string, body: Buffer): Buffer => {
  const bytes = Buffer.concat([Buffer.from(`${letter}....`), body])
  bytes.writeInt32BE(bytes.length - 1, 1)
  return bytes
}
const greeting = Buffer.concat([message('R', Buffer.alloc(4)), message('Z', Buffer.from('I'))])
const farewell = message('E', Buffer.from('SFATAL\0VFATAL\0C57P01\0Mterminating connection due to unexpected postmaster exit\0\0'))

/** What a server sends whoever dials; then it hangs up. */
let said: Buffer[]
let url: string
let database: Database
const uncaught: unknown[] = []
beforeAll(async () => {
  const server = createServer((socket) => {
    socket.on('error', () => socket.destroy())
    socket.once('data', () => socket.end(Buffer.concat(said)))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `postgresql://nobody:none@127.0.0.1:${(server.address() as AddressInfo).port}/none`
  // Where nobody listens for it, an error ends the process.
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
const ways: readonly [string, () => Promise<unknown>][] = [
  ['a statement', () => database.query(one)],
  ['a look-up that travels with others', () => database.query({ ...one, shares: true })],
  ['a transaction', () => database.begin((tx) => tx.query(one))],
  ['a transaction of transactions', () => database.beginOuter((tx) => tx.query(one))],
  ['a migration', () => migrate(url)],
]

test.each(ways)('[S33] a server that greets and ends the session in one breath fails %s and not the process', async (_, ask) => {
  said = [greeting, farewell]
  await expect(ask()).rejects.toThrow(/connection/i)
  expect(uncaught).toEqual([])
  expect(database.pool).toMatchObject({ total: 0, waiting: 0 })
})

test.each(ways)('[S33] a server that greets and hangs up without a word fails %s and not the process', async (_, ask) => {
  said = [greeting]
  await expect(ask()).rejects.toThrow(/connection/i)
  expect(uncaught).toEqual([])
  expect(database.pool).toMatchObject({ total: 0, waiting: 0 })
})

test('[S33] nor does a connection of its own, outside the pool', async () => {
  said = [greeting, farewell]
  const client = await database.connect()
  await expect(client.query('select 1')).rejects.toThrow(/connection/i)
  await client.end()
  expect(uncaught).toEqual([])
})
