import { EventEmitter } from 'node:events'
import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { killAtAwait } from './kill-at-await.ts'

const counted = (killAt?: number) => {
  const kills: string[] = []
  const counter = killAtAwait({ ...(killAt === undefined ? {} : { killAt }), kill: () => kills.push(counter.points.at(-1) ?? '') })
  return { counter, kills }
}

test('an async call has a point before and after it, also if it fails', async () => {
  const { counter } = counted()
  const deps = counter.wrap({ read: async () => 'text', fail: () => Promise.reject(new Error('gone')) })
  expect(await deps.read()).toBe('text')
  await expect(deps.fail()).rejects.toThrow('gone')
  expect(counter.points).toEqual(['deps.read before', 'deps.read after', 'deps.fail before', 'deps.fail after'])
})

test.each([1, 2, 3, 4])('the kill happens at point %i, before or after the effect', async (killAt) => {
  const { counter, kills } = counted(killAt)
  const effects: string[] = []
  const deps = counter.wrap({ write: async (text: string) => void effects.push(text) })
  await deps.write('a')
  await deps.write('b')
  expect(kills).toEqual([killAt % 2 ? 'deps.write before' : 'deps.write after'])
  expect(effects).toEqual(['a', 'b'])
})

test('a synchronous call is no point and is recorded as synchronous', () => {
  const first = counted().counter
  expect(first.wrap({ now: () => 5 }).now()).toBe(5)
  expect([first.points, [...first.synchronous]]).toEqual([[], ['deps.now']])
  const next = killAtAwait({ killAt: 1, kill: () => expect.unreachable(), synchronous: first.synchronous })
  expect(next.wrap({ now: () => 5 }).now()).toBe(5)
})

test('calls of a transaction in a callback are points in call order', async () => {
  const { counter } = counted()
  const sql = {
    query: async (text: string) => [text],
    async begin<T>(work: (tx: { query(text: string): Promise<string[]> }) => Promise<T>): Promise<T> {
      return work({ query: this.query })
    },
  }
  const deps = counter.wrap({ sql })
  expect(await deps.sql.begin(async (tx) => [await tx.query('a'), await tx.query('b')])).toEqual([['a'], ['b']])
  const inner = ['deps.sql.begin.handed.query before', 'deps.sql.begin.handed.query after']
  expect(counter.points).toEqual(['deps.sql.begin before', ...inner, ...inner, 'deps.sql.begin after'])
})

test('a returned client is wrapped, and unwrapped as an argument of its dependency', async () => {
  const { counter } = counted()
  class Client {
    readonly #rows = ['row']
    query = async () => this.#rows
  }
  const client = new Client()
  const pool = { connect: async () => client, release: (given: Client) => given === client }
  const deps = counter.wrap({ pool })
  const connected = await deps.pool.connect()
  expect(connected).toBeInstanceOf(Client)
  expect(await connected.query()).toEqual(['row'])
  expect(deps.pool.release(connected)).toBe(true)
  expect(counter.points).toContain('deps.pool.connect.query after')
})

test('an asynchronous stream is counted per element', async () => {
  const { counter } = counted()
  const deps = counter.wrap({
    watch: async function* () {
      yield 1
      yield 2
    },
  })
  const seen: number[] = []
  for await (const each of deps.watch()) seen.push(each)
  expect(seen).toEqual([1, 2])
  expect(counter.points.filter((label) => label.endsWith('next after'))).toHaveLength(3)
})

test('a function is a dependency, too, and answers with real objects', async () => {
  const { counter } = counted()
  const { get } = counter.wrap({ get: async (body: string) => new Response(body) })
  expect(await (await get('{"a":1}')).json()).toEqual({ a: 1 })
  expect(counter.points).toEqual(['deps.get before', 'deps.get after', 'deps.get.json before', 'deps.get.json after'])
  const bare = counted().counter
  expect(await bare.wrap(async (value: number) => value + 1, 'add')(1)).toBe(2)
  expect(bare.points).toEqual(['add before', 'add after'])
})

test('frozen objects, module namespaces and spread copies are counted', async () => {
  const { counter } = counted()
  const deps = counter.wrap(Object.freeze({ one: Object.freeze({ go: async () => 1 }), files: { readFile } }))
  const copy = { ...deps.one }
  expect([await deps.one.go(), await copy.go()]).toEqual([1, 1])
  expect((await deps.files.readFile(new URL(import.meta.url))).length).toBeGreaterThan(0)
  expect(counter.points).toHaveLength(6)
})

test('data values are not wrapped', async () => {
  const { counter } = counted()
  const row = { id: 1, at: new Date(0), bytes: Buffer.from('x'), tags: ['a'] }
  const deps = counter.wrap({ read: async () => row, config: { nested: { limit: 3 } } })
  expect(await deps.read()).toBe(row)
  expect(deps.config.nested.limit).toBe(3)
  expect(JSON.stringify(deps.config)).toBe('{"nested":{"limit":3}}')
})

test('a listener can be taken off again', () => {
  const { counter } = counted()
  const emitter = new EventEmitter()
  const deps = counter.wrap({ emitter })
  const listener = () => undefined
  deps.emitter.on('change', listener)
  deps.emitter.off('change', listener)
  expect(emitter.listenerCount('change')).toBe(0)
})
