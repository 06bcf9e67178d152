// Real servers and clients for tests of the outbound client. 127.0.0.2 represents the public internet: allowed by network, while
// 127.0.0.1 stays forbidden.
import { once } from 'node:events'
import { createServer as createHttp, type RequestListener } from 'node:http'
import { type AddressInfo, createServer as createTcp, type Server } from 'node:net'
import type { Allow } from '../http-client/address.ts'
import type { Lookup } from '../http-client/connect.ts'
import { createOutbound, type Outbound, type OutboundOptions } from '../http-client/outbound-client.ts'

export const outside: Allow = { cidrs: ['127.0.0.2/32'] }
export const outsideHost = '127.0.0.2'

const closers: (() => unknown)[] = []

/** Run after each test. */
export async function closeAll(): Promise<void> {
  await Promise.all(closers.splice(0).map((close) => close()))
}

export function onClose(close: () => unknown): void {
  closers.push(close)
}

export function outbound(options: OutboundOptions = {}, lookup?: Lookup): Outbound {
  const client = createOutbound(lookup ? { lookup } : {}, options)
  onClose(() => client.close())
  return client
}

export async function listen(server: Server, host = '127.0.0.1', port = 0): Promise<number> {
  server.listen(port, host)
  await once(server, 'listening')
  const sockets = new Set<{ destroy(): unknown }>()
  server.on('connection', (socket) => sockets.add(socket))
  onClose(() => {
    for (const socket of sockets) socket.destroy()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

/** Counts connections; sends no response. */
export async function innerListener(host = '127.0.0.1', port = 0): Promise<{ counts: { connections: number }; port: number }> {
  const counts = { connections: 0 }
  const server = createTcp((socket) => {
    counts.connections += 1
    socket.destroy()
  })
  return { counts, port: await listen(server, host, port) }
}

export async function httpServer(handle: RequestListener): Promise<string> {
  return `http://${outsideHost}:${await listen(createHttp(handle), outsideHost)}`
}
