// long: waits out connections that stall
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { TLSSocket, connect as tlsConnect } from 'node:tls'
import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import { describe, expect, onTestFinished, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { type Direction, type FaultProxy, type FaultProxyOptions, startFaultProxy } from './fault-proxy.ts'

const authority = await issueCertificate({ commonName: 'test authority', isCa: true })
const tls = await issueCertificate({ commonName: 'localhost', issuer: authority, usages: ['server'], hosts: ['localhost'] })
const targetTls = { ca: authority.cert, servername: 'localhost' }

const links = {
  'plain TCP': { front: false, back: false },
  'TLS in front': { front: true, back: false },
  'TLS on both sides': { front: true, back: true },
}
const cases = Object.keys(links).flatMap((link) =>
  (['toTarget', 'toClient'] as const).map((direction) => ({ link: link as keyof typeof links, direction })),
)

describe.each(cases)('$link, $direction', ({ link, direction }) => {
  test('without faults all bytes and the end arrive, and the reverse direction stays open', async () => {
    const { proxy, sender, receiver, opposite } = await setup(link, direction)
    const sent = pattern(3_000_000)
    sender.socket.end(sent)
    await receiver.ended
    expect(receiver.bytes().equals(sent)).toBe(true)
    receiver.socket.end('thanks')
    await sender.ended
    expect(sender.bytes().toString()).toBe('thanks')
    expect(proxy.bytes).toEqual({ [direction]: sent.length, [opposite]: 6 })
    await waitFor('the proxy to let go of the connection', () => proxy.connections.open === 0)
  })

  test('half-open blocks bytes and end of one direction until heal', async () => {
    const { proxy, sender, receiver } = await setup(link, direction)
    proxy.halfOpen(direction)
    sender.socket.end('held')
    await speak(receiver, sender, 'the other way works')
    expect([receiver.bytes().length, proxy.bytes[direction]]).toEqual([0, 0])
    expect(receiver.socket.readableEnded).toBe(false)
    proxy.heal()
    await receiver.ended
    expect(receiver.bytes().toString()).toBe('held')
  })

  test('half-open hides the close of the sender from the receiver', async () => {
    const { proxy, sender, receiver } = await setup(link, direction)
    proxy.halfOpen(direction)
    sender.reset()
    await sender.closed
    receiver.socket.write('into the void')
    await waitFor('the bytes to have gone', () => receiver.socket.writableLength === 0)
    expect(receiver.isOpen()).toBe(true)
    proxy.heal()
    await receiver.closed
    expect(receiver.failed()?.code).toBe('ECONNRESET')
  })

  test('a reset happens after exactly the set number of bytes', async () => {
    const { proxy, sender, receiver } = await setup(link, direction)
    proxy.resetAfter(1_000, direction)
    sender.socket.write(pattern(600))
    await waitFor('600 bytes', () => receiver.bytes().length === 600)
    sender.socket.write(pattern(600))
    await Promise.all([receiver.closed, sender.closed])
    expect(receiver.bytes().equals(Buffer.concat([pattern(600), pattern(400)]))).toBe(true)
    expect(receiver.failed()?.code).toBe('ECONNRESET')
    expect(proxy.bytes[direction]).toBe(1_000)
  })

  test('a truncation ends cleanly after exactly the set bytes, unnoticed by the sender', async () => {
    const { proxy, sender, receiver } = await setup(link, direction)
    proxy.truncateAfter(1_000, direction)
    sender.socket.write(pattern(2_000_000))
    await receiver.ended
    expect(receiver.bytes().equals(pattern(1_000))).toBe(true)
    receiver.socket.write('still there?')
    await waitFor('the way back', () => sender.bytes().length === 12)
    await waitFor('the sender to be rid of its bytes', () => sender.socket.writableLength === 0)
    expect([receiver.failed(), sender.failed()]).toEqual([undefined, undefined])
  })

  test('a delay keeps bytes and end back for its time and in their order', async () => {
    const { proxy, sender, receiver } = await setup(link, direction)
    proxy.delay(60, direction)
    const startedMs = performance.now()
    sender.socket.write('first ')
    sender.socket.end('second')
    await receiver.ended
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(59)
    expect(receiver.bytes().toString()).toBe('first second')
  })

  test('a throttle spreads bytes over time', async () => {
    const { proxy, sender, receiver } = await setup(link, direction)
    proxy.throttle(20_000, direction)
    const startedMs = performance.now()
    sender.socket.end(pattern(4_000))
    await receiver.ended
    expect(performance.now() - startedMs).toBeGreaterThanOrEqual(150)
    expect(receiver.bytes().equals(pattern(4_000))).toBe(true)
  })

  test('a reset by the peer is passed on as a reset', async () => {
    const { sender, receiver } = await setup(link, direction)
    sender.reset()
    await receiver.closed
    expect(receiver.failed()?.code).toBe('ECONNRESET')
  })

  test('a receiver that does not read stops the sender, and nothing is lost', async () => {
    const { proxy, sender, receiver } = await setup(link, direction)
    receiver.socket.pause()
    const sent = pattern(24_000_000)
    sender.socket.end(sent)
    const stalled = await waitFor('the sender to stall', stalledAt(proxy, direction), { everyMs: 20 })
    expect(stalled).toBeLessThan(sent.length)
    receiver.socket.resume()
    await receiver.ended
    expect(receiver.bytes().equals(sent)).toBe(true)
  })
})

test('cut resets open and new connections, heal accepts new ones', async () => {
  const { proxy, sender, receiver, open } = await setup('plain TCP', 'toTarget')
  proxy.cut()
  await Promise.all([sender.closed, receiver.closed])
  expect([sender.failed()?.code, receiver.failed()?.code]).toEqual(['ECONNRESET', 'ECONNRESET'])
  const refused = watch(connect(proxy.port, '127.0.0.1'))
  await refused.closed
  expect(refused.failed()?.code).toBe('ECONNRESET')
  proxy.heal()
  const { client, target } = await open()
  client.socket.write('hello')
  await waitFor('bytes after healing', () => target.bytes().toString() === 'hello')
  expect(proxy.connections).toEqual({ open: 1, total: 3 })
})

test('half-open keeps a client connected while its target is unreachable', async () => {
  const proxy = await startFaultProxy({ target: { path: '/nonexistent/socket' } })
  onTestFinished(() => proxy.close())
  proxy.halfOpen()
  const client = watch(connect(proxy.port, '127.0.0.1'))
  await once(client.socket, 'connect')
  client.socket.write('anybody?')
  await waitFor('the proxy to hold it', () => proxy.connections.open === 1)
  expect(client.isOpen()).toBe(true)
  proxy.heal()
  await client.closed
  expect(client.failed()?.code).toBe('ECONNRESET')
})

test('a limit counts from zero for every connection and every time it is set', async () => {
  const { proxy, sender, receiver, open } = await setup('plain TCP', 'toTarget')
  proxy.truncateAfter(5)
  const second = await open()
  for (const socket of [sender.socket, second.client.socket]) socket.write('0123456789')
  await Promise.all([receiver.ended, second.target.ended])
  expect([receiver.bytes().toString(), second.target.bytes().toString()]).toEqual(['01234', '01234'])
})

test('a recording contains the latest chunks per direction up to its byte limit', async () => {
  const { proxy, sender, receiver } = await setup('plain TCP', 'toTarget')
  const all = proxy.record()
  const last = proxy.record({ bytesMax: 4 })
  await speak(sender, receiver, 'ping')
  await speak(receiver, sender, 'pong')
  all.stop()
  await speak(sender, receiver, 'late')
  const text = (recording: typeof all) => recording.chunks.map((chunk) => `${chunk.connection} ${chunk.direction} ${chunk.data.toString()}`)
  expect(text(all)).toEqual(['1 toTarget ping', '1 toClient pong'])
  expect(text(last)).toEqual(['1 toTarget late'])
})

test.each([-1, Number.NaN, Number.POSITIVE_INFINITY])('a fault of %d is refused', async (value) => {
  const proxy = await startFaultProxy({ target: { path: '/nonexistent/socket' } })
  onTestFinished(() => proxy.close())
  for (const set of [proxy.delay, proxy.throttle, proxy.resetAfter, proxy.truncateAfter]) expect(() => set(value)).toThrow(RangeError)
})

type Peer = ReturnType<typeof watch>

/** A proxy in front of a listening socket, and one connection through it with both of its ends. */
async function setup(link: keyof typeof links, direction: Direction) {
  const { front, back } = links[link]
  const accepted: Peer[] = []
  const peers: Peer[] = []
  const server = createServer({ allowHalfOpen: true }, (raw) =>
    accepted.push(watch(raw, back ? new TLSSocket(raw, { isServer: true, ...tls }) : raw)),
  )
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const options: FaultProxyOptions = { target: { host: '127.0.0.1', port }, ...(front ? { tls } : {}), ...(back ? { targetTls } : {}) }
  const proxy = await startFaultProxy(options)
  onTestFinished(async () => {
    for (const peer of peers) peer.reset()
    await proxy.close()
    await new Promise((resolve) => server.close(resolve))
  })
  const open = async () => {
    const before = accepted.length
    const raw = connect({ port: proxy.port, host: '127.0.0.1', allowHalfOpen: true })
    const client = watch(raw, front ? tlsConnect({ socket: raw, ...targetTls }) : raw)
    await once(client.socket, front ? 'secureConnect' : 'connect')
    const target = await waitFor('the target to be reached', () => accepted[before])
    peers.push(client, target)
    return { client, target }
  }
  const { client, target } = await open()
  const ends = { toTarget: { sender: client, receiver: target }, toClient: { sender: target, receiver: client } }
  const opposite = direction === 'toTarget' ? ('toClient' as const) : ('toTarget' as const)
  return { proxy, open, opposite, ...ends[direction] }
}

/** Collects what a socket receives and how it ends. */
function watch(raw: Socket, socket: Duplex = raw) {
  const chunks: Buffer[] = []
  let failure: NodeJS.ErrnoException | undefined
  const fail = (error: NodeJS.ErrnoException) => (failure ??= error)
  raw.on('error', fail)
  if (socket !== raw) socket.on('error', fail)
  socket.on('data', (chunk: Buffer) => chunks.push(chunk))
  return {
    socket,
    bytes: () => Buffer.concat(chunks),
    failed: () => failure,
    isOpen: () => !raw.destroyed,
    reset: () => raw.resetAndDestroy(),
    ended: new Promise<void>((resolve) => socket.once('end', resolve)),
    closed: new Promise<void>((resolve) => raw.once('close', () => resolve())),
  }
}

async function speak(from: Peer, to: Peer, text: string): Promise<void> {
  from.socket.write(text)
  await waitFor(`"${text}"`, () => to.bytes().toString().endsWith(text))
}

/** The count of passed bytes once it has stood still between two looks. */
function stalledAt(proxy: FaultProxy, direction: Direction): () => number | false {
  let last = -1
  let still = 0
  return () => {
    still = proxy.bytes[direction] === last ? still + 1 : 0
    last = proxy.bytes[direction]
    return still >= 8 && last
  }
}

function pattern(length: number): Buffer {
  return Buffer.alloc(length, 'the quick brown fox jumps over the lazy dog. ')
}
