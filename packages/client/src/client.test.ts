// The client against a real broker, with a proxy that loses answers between them.
import { startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { type BrokerProxy, startBrokerProxy } from '@brokkr/testing/faults/broker-proxy.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { type Client, createClient } from './client.ts'
import { ApiError } from './errors.ts'
import type { WatchEvent } from './watch.ts'

let broker: TestBroker
let proxy: BrokerProxy
let client: Client
beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__FEED__PING_SECONDS: '0.2' } })
  proxy = await startBrokerProxy(broker.url)
  client = createClient({ baseUrl: proxy.url, pak: () => broker.adminPak, timeoutMs: 2000 })
  return async () => {
    await proxy.close()
    await broker.kill()
  }
}, 120_000)
beforeEach(() => proxy.heal())

test('a POST whose answer is lost is repeated with the same key and performed once', async () => {
  const name = unique('generator')
  let attempts = 0
  proxy.break(() => (attempts++ < 2 ? { do: 'withhold', heard: () => undefined } : { do: 'pass' }))
  const failure = await client.createGenerator({ body: { name } }).catch((error: unknown) => error)
  // The first answer contained the PAK, which the broker does not store: the repetition is recognised and says so.
  expect(failure).toMatchObject({ name: 'ApiError', code: 'secret_already_issued', next: expect.stringContaining('rotate') as unknown })
  expect(attempts).toBe(3)
  const found = await client.listGenerators({ query: { name } })
  expect(found.map((generator) => generator.name)).toEqual([name])
}, 30_000)

test('a POST without a secret returns the answer of its first attempt', async () => {
  const { generator } = await client.createGenerator({ body: { name: unique('generator') } })
  let attempts = 0
  proxy.break(() => (attempts++ < 1 ? { do: 'withhold', heard: () => undefined } : { do: 'pass' }))
  const stack = await client.createStack({ body: { name: unique('stack'), generator_id: generator.id } })
  expect((await client.listStacks({ query: { name: stack.name } })).map(({ id }) => id)).toEqual([stack.id])
}, 30_000)

test('errors carry code, message, next step and request id', async () => {
  const error = await client.getStack({ params: { id: crypto.randomUUID() } }).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(ApiError)
  expect(error).toMatchObject({ code: 'stack_not_found', status: 404, hasBody: true, next: expect.any(String) as unknown })
  expect((error as ApiError).requestId).toMatch(/\S/)
  const unreachable = createClient({ baseUrl: 'http://127.0.0.1:1', pak: () => 'x', retries: 0 })
  await expect(unreachable.listStacks({})).rejects.toMatchObject({ name: 'ConnectionError', next: expect.any(String) as unknown })
  proxy.break(() => ({ do: 'answer', status: 502, body: '<html>' }))
  await expect(client.listStacks({})).rejects.toMatchObject({ status: 502, hasBody: false })
}, 30_000)

test('an answer that does not come ends with the time limit, and a signal ends a call at once', async () => {
  proxy.break(() => ({ do: 'hang' }))
  const once = createClient({ baseUrl: proxy.url, pak: () => broker.adminPak, retries: 0, timeoutMs: 300 })
  await expect(once.listStacks({})).rejects.toThrow('no answer within 0.3 s')
  const stop = new AbortController()
  const call = client.listStacks({}, { signal: stop.signal })
  stop.abort(new Error('enough'))
  await expect(call).rejects.toThrow('enough')
})

test('pages and items read a list to its end with the cursor', async () => {
  const { generator } = await client.createGenerator({ body: { name: unique('generator') } })
  const label = unique('label')
  const names = Array.from({ length: 5 }, (_, at) => `${label}-${at}`)
  for (const name of names) await client.createStack({ body: { name, generator_id: generator.id, labels: [label] } })
  const pages: number[] = []
  for await (const page of client.pages('listStacks', { query: { label: [label] } }, { pageSize: 2 })) pages.push(page.length)
  expect(pages).toEqual([2, 2, 1])
  const found: string[] = []
  for await (const stack of client.items('listStacks', { query: { label: [label] } }, { pageSize: 2 })) found.push(stack.name)
  expect(found).toEqual(names)
})

test('a watch resumes by its cursor after a lost connection, without a missed change', async () => {
  const { generator } = await client.createGenerator({ body: { name: unique('generator') } })
  const create = () => client.createStack({ body: { name: unique('stack'), generator_id: generator.id } })
  const stop = new AbortController()
  const events: WatchEvent[] = []
  const reading = (async () => {
    for await (const event of client.watch({ scope: [`generator:${generator.id}`], signal: stop.signal })) events.push(event)
  })().catch((error: unknown) => error)
  const seen = (id: string) => waitFor(`the change of ${id}`, () => events.some((event) => event.type === 'change' && event.id === id))
  await waitFor('the watch to open', () => events.some(({ type }) => type === 'open'))
  const before = await create()
  await seen(before.id)
  await waitFor('a bookmark', () => events.at(-1)?.type === 'bookmark')
  // No new connection while the second stack is created.
  proxy.break(({ path }) => (path === '/api/v1/watch' ? { do: 'reset' } : { do: 'pass' }))
  proxy.cutOpen()
  await waitFor('the loss', () => events.some(({ type }) => type === 'lost'))
  const missed = await create()
  proxy.heal()
  await seen(missed.id)
  expect(events.flatMap((event) => (event.type === 'open' ? [event.mode] : []))).toEqual(['reset', 'resume'])
  stop.abort(new Error('done'))
  expect(await reading).toMatchObject({ message: 'done' })
}, 30_000)

test('a watch that may not be opened ends with the error of the broker', async () => {
  const stranger = createClient({ baseUrl: broker.url, pak: () => 'brokkr_BRaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaa' })
  await expect(stranger.watch({ scope: ['kind:stack'] }).next()).rejects.toMatchObject({ status: 401 })
})
