// The connections of calls: kept open, one call at a time on each, the one used last first. A client of our own, because there are many
// small calls while much is applied, and a general one costs twice as much for each (docs/decisions/0024). It opens as many connections
// as calls are under way; how many that may be the gate says.
import { isIP, connect as netConnect, type Socket } from 'node:net'
import { type ConnectionOptions, connect as tlsConnect } from 'node:tls'
import type { Exchange, Line } from './exchange.ts'

const CONNECT_TIMEOUT_MS = 10_000
/** Below the API server's own idle limit of 90 s, so that we rarely meet a connection that it is closing. */
const IDLE_MS = 30_000
/** One that has rested for so long may have been closed from the other side without our having looked. */
const RESTED_MS = 1_000
const READ_BYTES = 64 * 1024

export interface CallConnections extends Line {
  /** Keeps no connection for later; calls that are under way go on to their end. */
  close(): void
  destroy(reason: Error): void
}

export function createCallConnections(server: string, tls: ConnectionOptions): CallConnections {
  return new Pool(new URL(server), tls)
}

class Pool implements CallConnections {
  readonly #address: URL
  readonly #tls: ConnectionOptions
  readonly #all = new Set<Connection>()
  readonly #idle: Connection[] = []
  /** For all connections: what is read is taken out of it before the next read. */
  readonly #memory = Buffer.allocUnsafeSlow(READ_BYTES)
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(address: URL, tls: ConnectionOptions) {
    this.#address = address
    this.#tls = tls
  }

  carry(exchange: Exchange): void {
    const kept = this.#idle.pop()
    if (kept === undefined) this.#open(exchange)
    else if (performance.now() - kept.idleSinceMs < RESTED_MS) kept.send(exchange)
    // A turn of the event loop tells of an end that has come meanwhile.
    else setImmediate(() => (exchange.isOver ? this.#keep(kept) : kept.isUsable ? kept.send(exchange) : this.carry(exchange)))
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
    for (const connection of this.#idle.splice(0)) connection.end()
  }

  destroy(reason: Error): void {
    this.close()
    for (const connection of this.#all) connection.drop(reason)
  }

  #open(exchange: Exchange): void {
    const connection = new Connection(this.#connect.bind(this), {
      onFree: () => this.#keep(connection),
      onGone: () => this.#forget(connection),
    })
    this.#all.add(connection)
    connection.send(exchange)
  }

  #connect(onBytes: (bytes: Buffer) => void): Socket {
    const { protocol, hostname, port } = this.#address
    const host = hostname.replace(/^\[|\]$/g, '')
    const callback = (bytes: number, memory: Uint8Array): boolean => {
      onBytes(
        this.#memory.buffer === memory.buffer ? this.#memory.subarray(0, bytes) : Buffer.from(memory.buffer, memory.byteOffset, bytes),
      )
      return true
    }
    const at = { host, noDelay: true, keepAlive: true, keepAliveInitialDelay: 15_000, onread: { buffer: this.#memory, callback } }
    if (protocol !== 'https:') return netConnect({ ...at, port: Number(port || 80) })
    const servername = this.#tls.servername ?? (isIP(host) === 0 ? host : undefined)
    return tlsConnect({
      ...this.#tls,
      ...at,
      port: Number(port || 443),
      ALPNProtocols: ['http/1.1'],
      ...(servername ? { servername } : {}),
    })
  }

  #keep(connection: Connection): void {
    if (!connection.isUsable) return
    if (this.#isClosed) return connection.end()
    this.#idle.push(connection)
    this.#timer ??= setTimeout(() => this.#tidy(), IDLE_MS).unref()
  }

  #tidy(): void {
    this.#timer = undefined
    const nowMs = performance.now()
    // Those that have rested longest stand first.
    const fresh = this.#idle.findIndex(({ idleSinceMs }) => nowMs - idleSinceMs < IDLE_MS)
    for (const connection of this.#idle.splice(0, fresh < 0 ? this.#idle.length : fresh)) connection.end()
    const [first] = this.#idle
    if (first) this.#timer = setTimeout(() => this.#tidy(), IDLE_MS - (nowMs - first.idleSinceMs)).unref()
  }

  #forget(connection: Connection): void {
    this.#all.delete(connection)
    const at = this.#idle.indexOf(connection)
    if (at >= 0) this.#idle.splice(at, 1)
  }
}

class Connection {
  idleSinceMs = 0
  readonly #socket: Socket
  readonly #onFree: () => void
  readonly #drop = (reason: Error): void => this.drop(reason)
  #isConnected = false
  #exchange: Exchange | undefined

  constructor(connect: (onBytes: (bytes: Buffer) => void) => Socket, { onFree, onGone }: { onFree: () => void; onGone: () => void }) {
    this.#onFree = onFree
    const socket = connect((bytes) => this.#take(bytes))
    this.#socket = socket
    // A call has a timer, so that the process waits for it; for a connection alone it does not.
    socket.unref()
    const timer = setTimeout(() => this.drop(failed('ETIMEDOUT', `no connection within ${CONNECT_TIMEOUT_MS} ms`)), CONNECT_TIMEOUT_MS)
    socket.once('encrypted' in socket ? 'secureConnect' : 'connect', () => {
      clearTimeout(timer)
      this.#isConnected = true
      if (this.#exchange) this.#write(this.#exchange)
    })
    let cause: Error | undefined
    socket.on('error', (error) => (cause = error))
    socket.on('end', () => this.#ended())
    socket.on('close', () => {
      clearTimeout(timer)
      onGone()
      this.#exchange?.fail(cause ?? failed('ECONNRESET', 'the server closed the connection'))
    })
  }

  get isUsable(): boolean {
    return this.#isConnected && !this.#socket.destroyed && !this.#socket.readableEnded && this.#socket.writable
  }

  /** Before the server has shown who it is nothing leaves. */
  send(exchange: Exchange): void {
    this.#exchange = exchange
    exchange.begin(this.#drop)
    if (this.#isConnected) this.#write(exchange)
  }

  drop(reason: Error): void {
    this.#exchange?.fail(reason)
    this.#exchange = undefined
    this.#socket.destroy()
  }

  end(): void {
    this.#socket.destroy()
  }

  #write(exchange: Exchange): void {
    const { head, body, guard } = exchange.call
    try {
      guard?.()
    } catch (error) {
      // Nothing has left, so that the connection is as good as before.
      this.#exchange = undefined
      exchange.begin(() => undefined)
      this.#free()
      return exchange.fail(error as Error)
    }
    if (body === undefined) this.#socket.write(`${head}\r\n`, 'latin1')
    else if (typeof body === 'string') this.#socket.write(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`)
    else {
      this.#socket.write(`${head}content-length: ${body.length}\r\n\r\n`, 'latin1')
      this.#socket.write(body)
    }
  }

  #take(bytes: Buffer): void {
    const exchange = this.#exchange
    // Nobody has asked for anything: nobody knows what the next answer would belong to.
    if (exchange === undefined) return void this.#socket.destroy()
    if (!exchange.take(bytes)) return
    this.#exchange = undefined
    if (exchange.isKept) this.#free()
    else this.#socket.destroy()
  }

  #ended(): void {
    const exchange = this.#exchange
    if (exchange?.ended()) this.#exchange = undefined
    this.#socket.destroy()
  }

  #free(): void {
    this.idleSinceMs = performance.now()
    this.#onFree()
  }
}

const failed = (code: string, message: string): Error => Object.assign(new Error(message), { code })
