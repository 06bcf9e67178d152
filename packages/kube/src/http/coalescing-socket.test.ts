import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { openClosing } from '../test-parts/open-test-kube.ts'
import { newCa, newLeaf, strangeServer } from '../test-parts/strange-server.ts'
import type { StreamedResponse } from './transport.ts'

const digestOf = (parts: Iterable<Buffer>) => [...parts].reduce((hash, part) => hash.update(part), createHash('sha256')).digest('hex')

async function portions(answer: StreamedResponse): Promise<Buffer[][]> {
  const all: Buffer[][] = []
  for (let some = await answer.body.take(); some; some = await answer.body.take()) all.push(some)
  return all
}

/** A body of a test's making, over TLS. */
async function opened(write: (response: ServerResponse) => void) {
  const { config } = await strangeServer((_request, response) => {
    response.writeHead(200)
    response.flushHeaders()
    write(response)
  })
  return openClosing(config).open('/log')
}

test('many packets are read in few batches, complete and in order', async () => {
  const lines = Array.from({ length: 400 }, (_, n) => Buffer.from(`line ${n}\n`))
  const answer = await opened((response) => {
    let at = 0
    const timer = setInterval(() => {
      response.write(lines[at++])
      if (at < lines.length) return
      clearInterval(timer)
      response.end()
    }, 1)
  })
  const all = await portions(answer)
  expect(digestOf(all.flat())).toBe(digestOf(lines))
  expect(all.length).toBeLessThan(lines.length / 3)
})

test('a large transfer is complete with a slow reader', async () => {
  const flood = Array.from({ length: 64 }, (_, n) => Buffer.alloc(128 * 1024, n))
  const answer = await opened((response) => {
    for (const part of flood) response.write(part)
    response.end()
  })
  const first = (await answer.body.take()) ?? []
  await new Promise((resolve) => setImmediate(resolve))
  expect(digestOf([...first, ...(await portions(answer)).flat()])).toBe(digestOf(flood))
})

test('data after silence is read at once, and a closed connection is reported', async () => {
  const begun = Promise.withResolvers<ServerResponse>()
  const answer = await opened((response) => begun.resolve(response))
  const response = await begun.promise
  response.write('a')
  expect((await answer.body.take())?.map(String)).toEqual(['a'])
  response.destroy()
  await expect(answer.body.take()).rejects.toMatchObject({ code: 'ECONNRESET' })
})

test('a watch reports untrusted and absent servers and works without TLS', async () => {
  const { config, server } = await strangeServer(() => undefined, { ca: await newCa(), leaf: await newLeaf(await newCa('another')) })
  await expect(openClosing(config).open('/log')).rejects.toMatchObject({ reason: 'Untrusted' })
  server.close()
  await once(server, 'close')
  await expect(openClosing(config).open('/log')).rejects.toMatchObject({ reason: 'Unreachable' })
  const plain = createServer((_request, response) => response.end('plain')).listen(0, '127.0.0.1')
  onTestFinished(() => void plain.close())
  await once(plain, 'listening')
  const answer = await openClosing({ server: `http://127.0.0.1:${(plain.address() as AddressInfo).port}`, namespace: 'default' }).open(
    '/log',
  )
  expect((await portions(answer)).flat().map(String)).toEqual(['plain'])
})
