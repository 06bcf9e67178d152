// One connection through the fault proxy: the client's socket, the one to the target, and a lane in each direction.
import { connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { type ConnectionOptions, createSecureContext, TLSSocket, type TLSSocketOptions, connect as tlsConnect } from 'node:tls'
import { Lane } from './fault-lane.ts'
import type { LaneFaults } from './fault-step.ts'

export type Direction = 'toTarget' | 'toClient'
export type FaultProxyOptions = {
  target: { host: string; port: number } | { path: string }
  /** Certificate shown to clients. */
  tls?: { key: string; cert: string } & Pick<TLSSocketOptions, 'ALPNProtocols' | 'ca' | 'requestCert'>
  /** Encrypts again towards the target; verification is on unless switched off here. */
  targetTls?: Pick<ConnectionOptions, 'ca' | 'cert' | 'key' | 'servername' | 'rejectUnauthorized' | 'ALPNProtocols'>
}
export type ConnectionHooks = {
  faults: (direction: Direction) => LaneFaults
  onPassed: (direction: Direction, data: Buffer) => void
  onClosed: () => void
}

export class FaultConnection {
  readonly #sockets: { client: Socket; target: Socket }
  readonly #lanes: Record<Direction, Lane>

  constructor(options: FaultProxyOptions, client: Socket, hooks: ConnectionHooks) {
    const target = connect({ ...options.target, allowHalfOpen: true, noDelay: true })
    this.#sockets = { client, target }
    const clientSide = front(client, options.tls)
    const targetSide = back(target, options)
    const lane = (direction: Direction, from: Duplex, to: Duplex) =>
      new Lane({
        from,
        to,
        faults: () => hooks.faults(direction),
        onPassed: (data) => hooks.onPassed(direction, data),
        resetBoth: () => this.reset(),
      })
    this.#lanes = { toTarget: lane('toTarget', clientSide, targetSide), toClient: lane('toClient', targetSide, clientSide) }
    this.#watch(hooks.onClosed, [client, clientSide], [target, targetSide])
    for (const each of Object.values(this.#lanes)) each.start()
  }

  reconsider(): void {
    for (const lane of Object.values(this.#lanes)) lane.reconsider()
  }

  /** Resets both peers and drops queued data, like a crashed host or a firewall. */
  reset(): void {
    // A Unix socket knows no reset; its peer sees it closed.
    for (const socket of Object.values(this.#sockets)) {
      if (socket.remoteFamily === undefined) socket.destroy()
      else socket.resetAndDestroy()
    }
  }

  #watch(onClosed: () => void, fromClient: Duplex[], fromTarget: Duplex[]): void {
    for (const side of new Set(fromClient)) side.on('error', () => this.#lanes.toTarget.breakOff())
    for (const side of new Set(fromTarget)) side.on('error', () => this.#lanes.toClient.breakOff())
    let openSides = 2
    for (const socket of Object.values(this.#sockets)) {
      socket.once('close', () => {
        openSides -= 1
        if (openSides > 0) return
        for (const lane of Object.values(this.#lanes)) lane.stop()
        onClosed()
      })
    }
  }
}

function front(client: Socket, tls: FaultProxyOptions['tls']): Duplex {
  if (!tls) return client
  const { key, cert, ca, ...rest } = tls
  return new TLSSocket(client, { ...rest, isServer: true, secureContext: createSecureContext({ key, cert, ca }) })
}

function back(target: Socket, { targetTls, target: place }: FaultProxyOptions): Duplex {
  if (!targetTls) return target
  return tlsConnect({ servername: 'host' in place && /[a-z]/.test(place.host) ? place.host : 'localhost', ...targetTls, socket: target })
}
