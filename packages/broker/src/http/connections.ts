// How many connections one address may hold open before anybody on them has shown a key: enough for a fleet behind one router,
// too few to take the whole process. A connection leaves the count with the first call that was accepted, or when it closes.
import type { Server } from 'node:http'
import { BlockList, isIPv6, type Socket } from 'node:net'
import type { Metrics } from '@brokkr/runtime/metrics.ts'

export interface Connections {
  /** A caller on this connection has shown a valid key. */
  accepted(socket: Socket): void
}
export interface ConnectionOptions {
  readonly perAddressMax: number
  /** Behind a proxy the address is the proxy's: it stands for many, and is not counted. */
  readonly trustedProxies: readonly string[]
}

export function guardConnections(deps: { metrics: Metrics }, server: Server, options: ConnectionOptions): Connections {
  const unknown = new Map<string, Set<number>>()
  const dropped = deps.metrics.counter(
    'brokkr_http_connections_dropped_total',
    'Connections closed because too many of one address showed no key',
  )
  const isProxy = matcherOf(options.trustedProxies)
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
  // With TLS the socket of a request is another object than the one that was counted; address and port are the same.
  return { accepted: ({ remoteAddress, remotePort }) => void (remoteAddress && remotePort && forget(remoteAddress, remotePort)) }
}

function matcherOf(proxies: readonly string[]): (address: string) => boolean {
  const list = new BlockList()
  for (const proxy of proxies) {
    const [address = '', bits] = proxy.split('/')
    const family = isIPv6(address) ? 'ipv6' : 'ipv4'
    if (bits === undefined) list.addAddress(address, family)
    else list.addSubnet(address, Number(bits), family)
  }
  return (address) => list.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}
