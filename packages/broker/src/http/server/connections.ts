// Limits connections per client address on which no valid credential was presented yet: enough for a fleet behind one NAT, too few to
// exhaust the process. A connection no longer counts after its first authenticated request, or when it closes.
import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import { createProxyMatcher } from '../request/actor.ts'

export interface Connections {
  /** A request on this connection was authenticated. */
  accepted(socket: Socket): void
}
export interface ConnectionOptions {
  readonly perAddressMax: number
  /** Addresses of trusted proxies are not counted, because each stands for many clients. */
  readonly trustedProxies: readonly string[]
}

export function guardConnections(deps: { metrics: Metrics }, server: Server, options: ConnectionOptions): Connections {
  const unknown = new Map<string, Set<number>>()
  const dropped = deps.metrics.counter(
    'brokkr_http_connections_dropped_total',
    'Connections closed because too many of one address showed no key',
  )
  const isProxy = createProxyMatcher(options.trustedProxies)
  const forget = (address: string, port: number) => {
    const ports = unknown.get(address)
    ports?.delete(port)
    if (ports?.size === 0) unknown.delete(address)
  }
  server.on('connection', (socket: Socket) => {
    const { remoteAddress: address, remotePort: port } = socket
    if (address === undefined || port === undefined || isProxy(address)) return
    const ports = unknown.get(address) ?? new Set()
    if (ports.size >= options.perAddressMax) {
      dropped.inc()
      socket.destroy()
      return
    }
    unknown.set(address, ports.add(port))
    socket.once('close', () => forget(address, port))
  })
  // With TLS the socket of a request is another object than the counted one; address and port are the same.
  return { accepted: ({ remoteAddress, remotePort }) => void (remoteAddress && remotePort && forget(remoteAddress, remotePort)) }
}
