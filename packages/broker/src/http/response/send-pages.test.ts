import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { expect, onTestFinished, test } from 'vitest'
import { sendPages } from './send-pages.ts'

async function* pagesOf(...pages: string[]): AsyncGenerator<string> {
  yield* pages
}

test('a paged response joins its pages and keeps an earlier vary header', async () => {
  const respond = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    response.setHeader('vary', 'origin')
    const pages = pagesOf('[1,2]', '[3]')
    const answer = { status: 200, headers: {}, first: await pages.next(), pages, acceptEncoding: request.headers['accept-encoding'] }
    await sendPages({ clock: systemClock, stallMs: 10_000 }, response, answer)
  }
  const server = createServer((request, response) => void respond(request, response)).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const answer = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  expect([await answer.json(), answer.headers.get('vary')]).toEqual([[1, 2, 3], 'origin, accept-encoding'])
})
