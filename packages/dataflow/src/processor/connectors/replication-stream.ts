// The walsender's side of a slot: starts it at a position, hands out what comes in order, tells it what is confirmed, and holds the socket
// while nobody takes anything. Status goes out on its own timer, also while reading is paused, and carries nothing but what was confirmed.
import type { Socket } from 'node:net'
import pg from 'pg'
import { decodePgoutput, type Lsn, lsnText, type PgMessage } from './pgoutput.ts'
import { quoted } from './sql.ts'

export interface ReplicationOptions {
  readonly client: pg.ClientConfig
  readonly slot: string
  readonly publication: string
  readonly from: Lsn
  readonly heartbeatMs: number
  /** Have the server say where its log ends, on every status. */
  readonly asksForEnd?: boolean
  /** Asked whenever a status is sent. */
  confirmed(): Lsn
}
export type Frame =
  /** `at`: where in the log it stands, in the two halves that people write. */
  | { readonly kind: 'data'; readonly at: readonly [high: number, low: number]; readonly message: PgMessage }
  | { readonly kind: 'keepalive'; readonly walEnd: Lsn }

interface WireConnection extends NodeJS.EventEmitter {
  readonly stream: Socket
  sendCopyFromChunk(chunk: Buffer): void
}

/** Beyond this the socket is paused until somebody takes frames. */
const queueBytesMax = 256 * 1024
const stopMs = 5_000

export class ReplicationStream {
  readonly #options: ReplicationOptions
  readonly #client: pg.Client
  readonly #queue: Frame[] = []
  #queued = 0
  #failure: Error | undefined
  #wake: () => void = () => undefined
  #timer: NodeJS.Timeout | undefined
  #isStarted = false
  #isClosed = false

  constructor(options: ReplicationOptions) {
    this.#options = options
    this.#client = new pg.Client(options.client)
  }

  async start(): Promise<void> {
    const { slot, publication, from, heartbeatMs } = this.#options
    this.#client.on('error', (error: Error) => this.#fail(error))
    this.#client.on('end', () => this.#fail(new Error('Connection terminated')))
    await this.#client.connect()
    const started = new Promise<void>((resolve) => this.#connection().once('replicationStart', () => resolve()))
    this.#connection().on('copyData', ({ chunk }: { chunk: Buffer }) => this.#take(chunk))
    const names = `proto_version '1', publication_names ${pg.escapeLiteral(quoted(publication))}`
    // The answer comes when the stream ends.
    const running = this.#client.query(`START_REPLICATION SLOT ${quoted(slot)} LOGICAL ${lsnText(from)} (${names})`)
    running.catch((error: unknown) => this.#fail(error as Error))
    await Promise.race([started, running])
    // Before this a status would be an answer to the question for a password.
    this.#isStarted = true
    this.#timer = setInterval(() => this.sendStatus(), heartbeatMs)
  }

  /** What has come, at least one frame; throws what ended the stream. */
  async next(signal: AbortSignal): Promise<Frame[]> {
    while (this.#queue.length === 0) {
      if (this.#failure !== undefined) throw this.#failure
      signal.throwIfAborted()
      await this.#changed(signal)
    }
    this.#queued = 0
    const frames = this.#queue.splice(0)
    if (!this.#isClosed) this.#connection().stream.resume()
    return frames
  }

  /** Exactly what is confirmed as received, flushed and applied. */
  sendStatus(): void {
    if (!this.#isStarted || this.#isClosed || this.#failure !== undefined) return
    const lsn = this.#options.confirmed()
    const status = Buffer.alloc(34)
    status.write('r')
    status.writeBigInt64BE(lsn, 1)
    status.writeBigInt64BE(lsn, 9)
    status.writeBigInt64BE(lsn, 17)
    status.writeBigInt64BE(BigInt(Date.now() - 946_684_800_000) * 1000n, 25)
    status.writeUInt8(this.#options.asksForEnd === true ? 1 : 0, 33)
    this.#connection().sendCopyFromChunk(status)
  }

  async stop(): Promise<void> {
    if (this.#isClosed) return
    this.sendStatus()
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#wake()
    const { stream } = this.#connection()
    const cut = setTimeout(() => stream.destroy(), stopMs)
    stream.resume()
    await this.#client.end().catch(() => undefined)
    clearTimeout(cut)
  }

  #connection(): WireConnection {
    return (this.#client as unknown as { connection: WireConnection }).connection
  }

  #take(chunk: Buffer): void {
    if (this.#isClosed || this.#failure !== undefined) return
    const tag = chunk[0]
    if (tag === 0x77) {
      this.#takeData(chunk)
    } else if (tag === 0x6b) {
      // In the queue as well: it must not overtake the changes before it.
      this.#queue.push({ kind: 'keepalive', walEnd: chunk.readBigInt64BE(1) })
      if (chunk[17] === 1) this.sendStatus()
    } else this.#fail(new Error(`unknown replication message ${tag}`))
    this.#wake()
  }

  /** Decoded at once: the driver writes over its buffer, and a copy of every row would have to wait for the collector. */
  #takeData(chunk: Buffer): void {
    try {
      const at = [chunk.readUInt32BE(1), chunk.readUInt32BE(5)] as const
      this.#queue.push({ kind: 'data', at, message: decodePgoutput(chunk.subarray(25)) })
    } catch (thrown) {
      this.#fail(thrown as Error)
      return
    }
    this.#queued += chunk.length
    if (this.#queued > queueBytesMax) this.#connection().stream.pause()
  }

  #fail(error: Error): void {
    this.#failure ??= error
    clearInterval(this.#timer)
    this.#wake()
  }

  async #changed(signal: AbortSignal): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const aborted = () => resolve()
    this.#wake = resolve
    signal.addEventListener('abort', aborted, { once: true })
    await promise
    signal.removeEventListener('abort', aborted)
  }
}
