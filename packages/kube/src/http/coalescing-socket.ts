// The connection of a watch, with coalesced reads. A busy API server sends each event in a packet, and one wake-up per packet costs several
// times as much as the event itself. After each read the socket therefore pauses for a moment and then reads all that has arrived. The
// first event after silence is not delayed.
import { isIP, connect as netConnect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { type ConnectionOptions, connect as tlsConnect } from 'node:tls'

/** Delay between two reads; short compared with the use of events. */
const REST_MS = 20
const READ_BYTES = 64 * 1024
/** A read of this size means that more data is waiting: the next read follows without a pause. */
const FLOOD_BYTES = 16 * 1024
const CONNECT_TIMEOUT_MS = 10_000

export interface Address {
  protocol: string
  hostname: string
  port: string
}

/** Connector for Node's HTTP client. The returned socket may still be connecting; `done` is called when it is connected. */
export function createCoalescingConnector(
  tls: ConnectionOptions,
): (to: Address, done: (error: Error | null, socket?: Duplex) => void) => CoalescingSocket {
  return (to, done) => {
    const calm = new CoalescingSocket((onread) => open(to, tls, onread))
    const timer = setTimeout(() => {
      calm.destroy(Object.assign(new Error(`no connection within ${CONNECT_TIMEOUT_MS} ms`), { code: 'ETIMEDOUT' }))
    }, CONNECT_TIMEOUT_MS)
    const settle = (error: Error | null): void => {
      clearTimeout(timer)
      calm.off('error', settle)
      if (error) done(error)
      else done(null, calm)
    }
    calm.once('error', settle)
    // The HTTP client adds its listener later; an error event without a listener would end the process.
    calm.on('error', () => undefined)
    calm.inner.once(to.protocol === 'https:' ? 'secureConnect' : 'connect', () => settle(null))
    return calm
  }
}

type OnRead = { buffer: Buffer; callback(bytes: number, buffer: Buffer): boolean }

function open({ protocol, hostname, port }: Address, tls: ConnectionOptions, onread: OnRead): Socket {
  const host = hostname.replace(/^\[|\]$/g, '')
  const at = { host, keepAlive: true, keepAliveInitialDelay: 15_000, onread }
  if (protocol !== 'https:') return netConnect({ ...at, port: Number(port || 80) })
  const servername = tls.servername ?? (isIP(host) === 0 ? host : undefined)
  return tlsConnect({ ...tls, ...at, port: Number(port || 443), ALPNProtocols: ['http/1.1'], ...(servername ? { servername } : {}) })
}

export class CoalescingSocket extends Duplex {
  readonly inner: Socket
  #gathered: Buffer[] = []
  #rest: NodeJS.Timeout | undefined
  /** True while the reader accepts more data. */
  #isWanted = true

  constructor(openInner: (onread: OnRead) => Socket) {
    super()
    const callback = (bytes: number, buffer: Buffer): boolean => this.#gather(buffer.subarray(0, bytes))
    this.inner = openInner({ buffer: Buffer.allocUnsafeSlow(READ_BYTES), callback })
    this.inner.on('end', () => {
      this.#handOver()
      this.push(null)
    })
    this.inner.on('error', (error) => this.destroy(error))
    this.inner.on('close', () => this.destroy())
  }

  override _read(): void {
    this.#isWanted = true
    if (!this.#rest) this.inner.resume()
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.inner.write(chunk, encoding, done)
  }

  override _final(done: () => void): void {
    this.inner.end(done)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#rest)
    this.inner.destroy()
    done(error)
  }

  ref(): void {
    this.inner.ref()
  }

  unref(): void {
    this.inner.unref()
  }

  /** Returns false to pause reading. Data of the same decrypted record still arrives, so everything is pushed one turn later. */
  #gather(bytes: Buffer): boolean {
    // Copied, because the socket reuses the buffer.
    this.#gathered.push(Buffer.from(bytes))
    if (this.#gathered.length === 1) setImmediate(() => this.#handOver())
    return false
  }

  #handOver(): void {
    if (this.#gathered.length === 0 || this.destroyed) return
    const [first] = this.#gathered
    const bytes = this.#gathered.length === 1 && first ? first : Buffer.concat(this.#gathered)
    this.#gathered = []
    if (bytes.length < FLOOD_BYTES) this.#rest ??= setTimeout(() => this.#goOn(), REST_MS)
    this.#isWanted = this.push(bytes)
    if (!this.#rest) this.#goOn()
  }

  #goOn(): void {
    this.#rest = undefined
    if (this.#isWanted) this.inner.resume()
  }
}
