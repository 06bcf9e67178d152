// The connection of a watch, read with rests. A busy API server sends every event in a packet of its own, and waking up for each costs
// several times what its content does; so after each look at the connection the next one waits a moment, and takes all that has come.
// What comes after a silence is not delayed.
import { isIP, connect as netConnect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { type ConnectionOptions, connect as tlsConnect } from 'node:tls'

/** Nobody waits for an event so eagerly that this counts. */
const REST_MS = 20
const READ_BYTES = 64 * 1024
/** So much at one look means that there is more to come: no rest until it is taken. */
const FLOOD_BYTES = 16 * 1024
const CONNECT_TIMEOUT_MS = 10_000

export interface Address {
  protocol: string
  hostname: string
  port: string
}

/** For a client that does everything else. What is given may still be connecting; `done` is told when it is. */
export function calmConnector(tls: ConnectionOptions): (to: Address, done: (error: Error | null, socket?: Duplex) => void) => CalmSocket {
  return (to, done) => {
    const calm = new CalmSocket((onread) => open(to, tls, onread))
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
    // Whoever it is handed to listens as well, but not at once, and an error that nobody hears ends the process.
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

export class CalmSocket extends Duplex {
  readonly inner: Socket
  #gathered: Buffer[] = []
  #rest: NodeJS.Timeout | undefined
  /** Whoever reads from us has room for more. */
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

  /** False stops reading; what was decrypted along with it still comes, so that all of it is handed over a turn later. */
  #gather(bytes: Buffer): boolean {
    // The buffer is used again for the next bytes.
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
