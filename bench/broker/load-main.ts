// The load: as many connections as told, one request after the other on each, for so many seconds. A process of its own with a
// client of a few lines, so that on two cores most of the time is left to who is measured. Order on standard input, result on output.
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { nextNumber, risingNumber } from './rising-number.ts'

export interface LoadOrder {
  readonly port: number
  readonly seconds: number
  /** Not counted: caches, prepared statements and compiled code come first. */
  readonly warmUpSeconds: number
  /** One per connection: requests as they go over the wire, sent in turn. Where one holds `risingNumber`, a higher one stands each time. */
  readonly lanes: readonly (readonly string[])[]
}
export interface LoadResult {
  readonly requests: number
  readonly seconds: number
  readonly refused: number
  /** The first answer that was no success. */
  readonly firstRefusal: string | null
  readonly latenciesMs: readonly number[]
}

const order = JSON.parse(await text(process.stdin)) as LoadOrder
const latenciesMs: number[] = []
let [isCounting, isOver, refused] = [false, false, 0]
let firstRefusal: string | null = null

const lane = (requests: readonly string[]): Promise<void> =>
  new Promise((resolve, reject) => {
    const wire = requests.map((request) => ({ bytes: Buffer.from(request), numberAt: Buffer.from(request).indexOf(risingNumber) }))
    const socket = connect({ port: order.port, host: '127.0.0.1', noDelay: true })
    let [at, startedMs, wantedBytes, pending] = [0, 0, -1, Buffer.alloc(0)]
    const send = () => {
      if (isOver) {
        socket.end(() => resolve())
        return
      }
      startedMs = performance.now()
      const { bytes, numberAt } = wire[at++ % wire.length]!
      if (numberAt >= 0) bytes.write(nextNumber(), numberAt)
      socket.write(bytes)
    }
    socket.on('connect', send).on('error', reject)
    const closed = () =>
      new Error(
        `the server closed the connection ${Math.round(performance.now() - startedMs)} ms after the last request; first refusal: ${firstRefusal ?? 'none'}`,
      )
    socket.on('close', () => (isOver ? resolve() : reject(closed())))
    socket.on('data', (chunk) => {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
      if (wantedBytes < 0) wantedBytes = lengthOf(pending)
      if (wantedBytes < 0 || pending.length < wantedBytes) return
      if (isCounting) latenciesMs.push(performance.now() - startedMs)
      if (pending[9] !== 0x32) {
        refused += 1
        firstRefusal ??= pending.toString('utf8', 0, 600)
      }
      pending = pending.subarray(wantedBytes)
      wantedBytes = -1
      send()
    })
  })

/** Bytes of the whole answer, or -1 while its head is not complete. */
function lengthOf(bytes: Buffer): number {
  const end = bytes.indexOf('\r\n\r\n')
  if (end < 0) return -1
  const length = /content-length: (\d+)/i.exec(bytes.toString('latin1', 0, end))?.[1]
  return end + 4 + Number(length ?? 0)
}

const after = (seconds: number) => new Promise<void>((resolve) => void setTimeout(resolve, seconds * 1000))
const running = Promise.all(order.lanes.map(lane))
await Promise.race([running, after(order.warmUpSeconds)])
process.stdout.write('counting\n')
isCounting = true
const startedMs = performance.now()
await Promise.race([running, after(order.seconds)])
isCounting = false
const seconds = (performance.now() - startedMs) / 1000
process.stdout.write('counted\n')
isOver = true
await running
process.stdout.write(
  `${JSON.stringify({ requests: latenciesMs.length, seconds, refused, firstRefusal, latenciesMs } satisfies LoadResult)}\n`,
)
