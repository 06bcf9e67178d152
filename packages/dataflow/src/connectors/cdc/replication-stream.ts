// Receives the stream of a slot: starts it at a position, queues frames in order, confirms positions, and pauses the socket while the queue
// is full. Status messages have their own timer, also while reading is paused, and contain only confirmed positions.
import pg from 'pg'
import { quoteName } from '../postgresql/sql.ts'
import { decodePgoutput, type Lsn, lsnText, type PgMessage } from './pgoutput.ts'
import { getWireConnection } from './wire-connection.ts'

export interface ReplicationOptions {
  readonly client: pg.ClientConfig
  readonly slot: string
  readonly publication: string
  readonly from: Lsn
  readonly heartbeatMs: number
  /** Asks the server for the end of its WAL with every status. */
  readonly asksForEnd?: boolean
  /** Called for every status message. */
  confirmed(): Lsn
}
export type Frame =
  /** `at`: position in the WAL, as two 32-bit halves. */
  | { readonly kind: 'data'; readonly at: readonly [high: number, low: number]; readonly message: PgMessage }
  | { readonly kind: 'keepalive'; readonly walEnd: Lsn }

/** Above this size the socket is paused until frames are taken. */
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
    const started = new Promise<void>((resolve) => getWireConnection(this.#client).once('replicationStart', () => resolve()))
    getWireConnection(this.#client).on('copyData', ({ chunk }: { chunk: Buffer }) => this.#take(chunk))
    const names = `proto_version '1', publication_names ${pg.escapeLiteral(quoteName(publication))}`
    // The query resolves when the stream ends.
    const running = this.#client.query(`START_REPLICATION SLOT ${quoteName(slot)} LOGICAL ${lsnText(from)} (${names})`)
    running.catch((error: unknown) => this.#fail(error as Error))
    await Promise.race([started, running])
    // An earlier status would be read as the answer to a password request.
    this.#isStarted = true
    this.#timer = setInterval(() => this.sendStatus(), heartbeatMs)
  }

  /** At least one frame; throws the error that ended the stream. */
  async next(signal: AbortSignal): Promise<Frame[]> {
    while (this.#queue.length === 0) {
      if (this.#failure !== undefined) throw this.#failure
      signal.throwIfAborted()
      await this.#changed(signal)
    }
    this.#queued = 0
    const frames = this.#queue.splice(0)
    if (!this.#isClosed) getWireConnection(this.#client).stream.resume()
    return frames
  }

  /** Confirms the same position as received, flushed and applied. */
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
    getWireConnection(this.#client).sendCopyFromChunk(status)
  }

  async stop(): Promise<void> {
    if (this.#isClosed) return
    this.sendStatus()
    this.#isClosed = true
    clearInterval(this.#timer)
    this.#wake()
    const { stream } = getWireConnection(this.#client)
    const cut = setTimeout(() => stream.destroy(), stopMs)
    stream.resume()
    await this.#client.end().catch(() => undefined)
    clearTimeout(cut)
  }

  #take(chunk: Buffer): void {
    if (this.#isClosed || this.#failure !== undefined) return
    const tag = chunk[0]
    if (tag === 0x77) {
      this.#takeData(chunk)
    } else if (tag === 0x6b) {
      // Queued too: a keepalive must not overtake earlier changes.
      this.#queue.push({ kind: 'keepalive', walEnd: chunk.readBigInt64BE(1) })
      if (chunk[17] === 1) this.sendStatus()
    } else this.#fail(new Error(`unknown replication message ${tag}`))
    this.#wake()
  }

  /** Decoded at once, because the driver reuses its buffer; copying every row would cost more garbage collection. */
  #takeData(chunk: Buffer): void {
    try {
      const at = [chunk.readUInt32BE(1), chunk.readUInt32BE(5)] as const
      this.#queue.push({ kind: 'data', at, message: decodePgoutput(chunk.subarray(25)) })
    } catch (thrown) {
      this.#fail(thrown as Error)
      return
    }
    this.#queued += chunk.length
    if (this.#queued > queueBytesMax) getWireConnection(this.#client).stream.pause()
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
