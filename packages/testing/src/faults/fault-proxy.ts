// TCP proxy between two real programs with faults per direction: cut, slow, silent, reset or truncated. With `tls` it terminates
// TLS, so that faults count plain bytes; without it, bytes pass unchanged.
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type Direction, FaultConnection, type FaultProxyOptions } from './fault-connection.ts'
import { type LaneFaults, noFaults } from './fault-step.ts'

export type { Direction, FaultProxyOptions }
export type Recording = { readonly chunks: readonly RecordedChunk[]; readonly stop: () => void }
/** `connection` counts from 1 in order of arrival. */
export type RecordedChunk = { connection: number; direction: Direction; data: Buffer }

/** Without a direction a fault holds for both. Faults add up until `heal`. */
export type FaultProxy = {
  readonly port: number
  readonly url: string
  /** Resets open and new connections. */
  readonly cut: () => void
  /** Removes all faults and forwards queued data. */
  readonly heal: () => void
  readonly delay: (ms: number, direction?: Direction) => void
  /** Bytes per second of each connection. */
  readonly throttle: (bytesPerSecond: number, direction?: Direction) => void
  /** Connections are accepted and kept, and nothing passes, neither bytes nor their end. */
  readonly halfOpen: (direction?: Direction) => void
  /** Passes so many further bytes of each connection, then resets both of its sockets. */
  readonly resetAfter: (bytes: number, direction?: Direction) => void
  /** Passes so many further bytes of each connection, then a clean end; the rest is swallowed. */
  readonly truncateAfter: (bytes: number, direction?: Direction) => void
  readonly connections: { readonly open: number; readonly total: number }
  /** Passed on so far, not merely received. */
  readonly bytes: Readonly<Record<Direction, number>>
  /** Records all later chunks; keeps the latest `bytesMax` (16 MiB). */
  readonly record: (options?: { bytesMax?: number }) => Recording
  readonly close: () => Promise<void>
}

export async function startFaultProxy(options: FaultProxyOptions): Promise<FaultProxy> {
  const faults: Record<Direction, LaneFaults> = { toTarget: noFaults, toClient: noFaults }
  const bytes = { toTarget: 0, toClient: 0 }
  const open = new Set<FaultConnection>()
  const recordings = new Set<(chunk: RecordedChunk) => void>()
  let isCut = false
  let total = 0

  const change = (part: Partial<LaneFaults>, direction?: Direction) => {
    for (const each of direction ? [direction] : directions) faults[each] = { ...faults[each], ...part }
    for (const connection of open) connection.reconsider()
  }
  const accept = (client: Socket) => {
    const number = (total += 1)
    if (isCut) {
      client.on('error', () => {}).resetAndDestroy()
      return
    }
    const connection = new FaultConnection(options, client, {
      faults: (direction) => faults[direction],
      onPassed: (direction, data) => {
        bytes[direction] += data.length
        for (const keep of recordings) keep({ connection: number, direction, data })
      },
      onClosed: () => open.delete(connection),
    })
    open.add(connection)
  }
  const server = createServer({ allowHalfOpen: true, noDelay: true }, accept)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo

  return {
    port,
    url: options.tls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`,
    cut() {
      isCut = true
      for (const connection of open) connection.reset()
    },
    heal() {
      isCut = false
      for (const direction of directions) faults[direction] = noFaults
      change({})
    },
    delay: (ms, direction) => change({ delayMs: atLeastZero(ms) }, direction),
    throttle: (bytesPerSecond, direction) => change({ bytesPerSecond: atLeastZero(bytesPerSecond) }, direction),
    halfOpen: (direction) => change({ halfOpen: true }, direction),
    resetAfter: (count, direction) => change({ limit: { bytes: atLeastZero(count), end: 'reset' } }, direction),
    truncateAfter: (count, direction) => change({ limit: { bytes: atLeastZero(count), end: 'truncate' } }, direction),
    bytes,
    get connections() {
      return { open: open.size, total }
    },
    record: ({ bytesMax = 16 * 1024 * 1024 } = {}) => record(recordings, bytesMax),
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const connection of open) connection.reset()
      await closed
    },
  }
}

const directions = ['toTarget', 'toClient'] as const

/** Past the bound the oldest chunks go: the end of a conversation explains more than its beginning. */
function record(recordings: Set<(chunk: RecordedChunk) => void>, bytesMax: number): Recording {
  const chunks: RecordedChunk[] = []
  let recordedBytes = 0
  const keep = (chunk: RecordedChunk) => {
    chunks.push({ ...chunk, data: Buffer.from(chunk.data) })
    recordedBytes += chunk.data.length
    while (recordedBytes > bytesMax && chunks.length > 1) recordedBytes -= chunks.shift()?.data.length ?? 0
  }
  recordings.add(keep)
  return { chunks, stop: () => void recordings.delete(keep) }
}

function atLeastZero(value: number): number {
  if (Number.isFinite(value) && value >= 0) return value
  throw new RangeError(`A fault takes a number from zero upwards, not ${value}.`)
}
