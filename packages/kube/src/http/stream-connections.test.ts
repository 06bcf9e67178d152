import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { manualClock } from '@brokkr/testing/clock.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, onTestFinished, test } from 'vitest'
import type { Kube } from '../client/kube.ts'
import { openClosing } from '../test-parts/open-test-kube.ts'
import { newCa, newLeaf, strangeServer } from '../test-parts/strange-server.ts'
import { createStreamConnections } from './stream-connections.ts'
import { StreamedBody } from './streamed-body.ts'

const KIND = { apiVersion: 'v1', kind: 'ConfigMap' }
const page = (name: string, next?: string) =>
  JSON.stringify({ metadata: { resourceVersion: '5', continue: next }, items: [{ metadata: { name } }] })

async function namesOf(kube: Kube, options = {}): Promise<string[]> {
  const names: string[] = []
  const take = (items: { metadata: { name: string } }[]) => void names.push(...items.map(({ metadata }) => metadata.name))
  await kube.scan(KIND, options, { take, anew: () => void names.splice(0) })
  return names
}

/** Three pages. */
function answerPages(request: IncomingMessage, response: ServerResponse): void {
  const at = Number(new URL(request.url ?? '', 'http://x').searchParams.get('continue') ?? 1)
  response.writeHead(200, { 'content-type': 'application/json' }).end(page(`c${at}`, at < 3 ? String(at + 1) : undefined))
}

test('pages of a list use one connection, with TLS and without', async () => {
  let connections = 0
  const { config, server } = await strangeServer(answerPages)
  const plain = createServer(answerPages).listen(0, '127.0.0.1')
  onTestFinished(() => void plain.close())
  await once(plain, 'listening')
  for (const one of [server, plain]) one.on(one === server ? 'secureConnection' : 'connection', () => connections++)
  for (const to of [config, { server: `http://127.0.0.1:${(plain.address() as AddressInfo).port}`, namespace: 'default' }])
    expect(await namesOf(openClosing(to), { pageSize: 1 })).toEqual(['c1', 'c2', 'c3'])
  expect(connections).toBe(2)
  // A connection that the server gave up meanwhile is not used again.
  server.closeAllConnections()
  expect(await namesOf(openClosing(config), { pageSize: 1 })).toHaveLength(3)
})

test('an untrusted server receives no byte of the request', async () => {
  const ca = await newCa()
  for (const leaf of [await newLeaf(ca, { hosts: ['other.example.com'] }), await newLeaf(await newCa('another CA'))]) {
    let bytes = 0
    const { config, server } = await strangeServer(() => undefined, { ca, leaf })
    server.on('secureConnection', (socket) => socket.on('data', (some) => (bytes += some.length)))
    const closed = once(server, 'connection').then(([socket]) => once(socket as Socket, 'close'))
    await expect(namesOf(openClosing({ ...config, token: { kind: 'value', value: 't' } }))).rejects.toMatchObject({ reason: 'Untrusted' })
    await closed
    expect(bytes).toBe(0)
    server.close()
    await once(server, 'close')
    await expect(namesOf(openClosing(config))).rejects.toMatchObject({ reason: 'Unreachable' })
  }
})

test('a list in flight completes when the CA changes', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'lists-'))
  onTestFinished(() => rm(dir, { recursive: true }))
  const path = join(dir, 'ca.crt')
  const [one, two] = [await newCa('one'), await newCa('two')]
  const waiting: ServerResponse[] = []
  const { config, server } = await strangeServer((_request, response) => void waiting.push(response), { ca: one })
  await writeFile(path, one.cert)
  const clock = manualClock()
  const kube = openClosing({ ...config, ca: { file: path } }, { clock })
  const asked = () => waitFor('a question', () => waiting.shift())
  const before = namesOf(kube)
  const first = await asked()
  const left = once(first.socket as Socket, 'close')
  server.setSecureContext(await newLeaf(two))
  await writeFile(path, two.cert)
  await clock.advance(10_000)
  const after = namesOf(kube)
  ;(await asked()).end(page('new'))
  expect(await after).toEqual(['new'])
  first.end(page('old'))
  expect(await before).toEqual(['old'])
  await left
})

test('an unread response causes backpressure and stays complete', async () => {
  let written = 0
  function* parts(): Generator<Buffer> {
    for (; written < 512; written++) yield Buffer.alloc(128 * 1024, 'x')
  }
  const { config, ca } = await strangeServer((_request, response) => void Readable.from(parts()).pipe(response.writeHead(200)))
  const connections = createStreamConnections(config.server, { ca: ca.cert })
  onTestFinished(() => connections.destroy())
  const body = new StreamedBody()
  connections.list({ origin: config.server, path: '/', method: 'GET', headers: {} }, body)
  await body.head
  let last = 0
  await waitFor('the server to be held up', () => {
    const isHeld = written > 0 && written === last
    last = written
    return isHeld
  })
  expect(last).toBeLessThan(512)
  let bytes = 0
  for await (const chunk of body) bytes += chunk.length
  expect(bytes).toBe(512 * 128 * 1024)
})
