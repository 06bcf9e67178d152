import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { gzipSync } from 'node:zlib'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import type { KubeObject } from '../client/object.ts'
import { openClosing } from '../test-parts/open-test-kube.ts'
import { strangeServer } from '../test-parts/strange-server.ts'

const KIND = { apiVersion: 'v1', kind: 'ConfigMap' }
const list = (from: number, count: number, next?: string) =>
  JSON.stringify({
    metadata: { resourceVersion: '5', continue: next },
    items: Array.from({ length: count }, (_, n) => ({ metadata: { name: `c${from + n}`, text: 'x'.repeat(100) } })),
  })

/** A client of a server that answers each question by its query. */
async function asking(answer: (query: URLSearchParams, response: ServerResponse) => void, options = {}) {
  const asked: (string | null)[] = []
  const { config, server } = await strangeServer((request, response) => {
    const query = new URL(request.url ?? '', 'http://x').searchParams
    asked.push(query.get('limit'))
    answer(query, response)
  })
  const kube = openClosing(config, options)
  const names: string[] = []
  const taker = {
    take: (items: KubeObject[]) => void names.push(...items.map(({ metadata }) => metadata.name)),
    anew: () => void names.splice(0),
  }
  return { kube, asked, names, server, scan: (more = {}) => kube.scan(KIND, more, taker) }
}
const head = { 'content-type': 'application/json' }

test.each([true, false])('objects are passed on while the list arrives, gzip: %s', async (packed) => {
  const text = list(500, 4000)
  const inHalves = (response: ServerResponse) => {
    response.writeHead(200, head).write(text.slice(0, 300_000))
    // The second half only leaves once the first one is taken.
    void waitFor('the first half to be taken', () => names.length > 1500).then(() => response.end(text.slice(300_000)))
  }
  const { scan, names, asked } = await asking((query, response) => {
    if (!query.get('continue')) response.writeHead(200, head).end(list(0, 500, 'more'))
    else if (packed) response.writeHead(200, { ...head, 'content-encoding': 'gzip' }).end(gzipSync(text))
    else inHalves(response)
  })
  expect(await scan()).toBe('5')
  expect(names).toEqual(Array.from({ length: 4500 }, (_, n) => `c${n}`))
  expect(asked).toEqual(['10000', '10000'])
})

test('a list that is too slow is requested again in small pages', async () => {
  const { scan, names, asked } = await asking((query, response) => {
    response.writeHead(200, head)
    if (query.get('limit') === '10000') response.write(list(0, 4000).slice(0, 400_000))
    else if (!query.get('continue')) response.end(list(7, 500, 'more'))
    else response.end(list(507, 10))
  })
  expect(await scan({ timeoutMs: 500 })).toBe('5')
  expect(names).toEqual(Array.from({ length: 510 }, (_, n) => `c${n + 7}`))
  expect(asked).toEqual(['10000', '500', '500'])
})

test.each([
  ['packed badly', gzipSync(list(0, 2000)).fill(7, 60, 90), 'BadAnswer'],
  ['packed and cut', gzipSync(list(0, 2000)).subarray(0, -20), 'BadAnswer'],
  ['not JSON', gzipSync(`${list(0, 2000)}}`), 'BadAnswer'],
])('a list that is %s is a typed error', async (_what, body, reason) => {
  const { scan } = await asking((_query, response) => void response.writeHead(200, { ...head, 'content-encoding': 'gzip' }).end(body))
  await expect(scan()).rejects.toMatchObject({ reason })
})

test('a truncated, slow or aborted list is reported as such', async () => {
  const stopping = new AbortController()
  const { scan } = await asking((query, response) => {
    response.writeHead(200, head)
    response.write(list(0, 2000).slice(0, 150_000), () => {
      if (query.get('labelSelector') === 'cut') response.destroy()
      if (query.get('labelSelector') === 'stop') stopping.abort(new Error('enough'))
    })
  })
  await expect(scan({ labelSelector: 'cut' })).rejects.toMatchObject({ reason: 'Unreachable' })
  await expect(scan({ labelSelector: 'slow', timeoutMs: 200 })).rejects.toMatchObject({ reason: 'TimedOut' })
  await expect(scan({ labelSelector: 'stop', signal: stopping.signal })).rejects.toThrow('enough')
})

test('a list that decompresses above the limit is requested in halves', async () => {
  const bomb = gzipSync(Buffer.alloc(70 * 1024 * 1024, ' '))
  const { scan, names, asked } = await asking((query, response) => {
    response.writeHead(200, { ...head, 'content-encoding': 'gzip' })
    response.end(query.get('limit') === '1' ? gzipSync(list(0, 2)) : bomb)
  })
  await scan({ pageSize: 4 })
  expect([names, asked]).toEqual([
    ['c0', 'c1'],
    ['4', '2', '1'],
  ])
})

test('lists in flight respect the limit', async () => {
  const waiting: ServerResponse[] = []
  const { scan, asked } = await asking((_query, response) => void waiting.push(response), { limits: { inFlight: 1 } })
  const both = Promise.all([scan(), scan()])
  const answerNext = async () => (await waitFor('a question', () => waiting.shift())).writeHead(200, head).end(list(0, 1))
  await answerNext()
  expect(asked).toHaveLength(1)
  await answerNext()
  expect(await both).toEqual(['5', '5'])
})

test('leaving the pages early aborts the request in flight', async () => {
  const closed = Promise.withResolvers<void>()
  const begun = Promise.withResolvers<void>()
  const { kube } = await asking((query, response) => {
    if (!query.get('continue')) response.writeHead(200, head).end(list(0, 500, 'more'))
    else begun.resolve()
    if (query.get('continue')) void once(response, 'close').then(() => closed.resolve())
  })
  for await (const _page of kube.pages(KIND)) {
    await begun.promise
    break
  }
  await closed.promise
})
