// A real proxy that opens tunnels by CONNECT, as those of company networks do. It resolves every name to one local port.
import { createServer, type IncomingHttpHeaders } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { closeAfter } from './scripted-broker.ts'

export interface ConnectProxy {
  readonly url: string
  /** Every tunnel that was asked for. */
  readonly connects: { readonly to: string; readonly headers: IncomingHttpHeaders }[]
  /** Requests that came without a tunnel. */
  readonly plain: string[]
}

export async function connectProxy(
  port: () => number,
  options: { credentials?: string; isHung?: () => boolean } = {},
): Promise<ConnectProxy> {
  const connects: ConnectProxy['connects'] = []
  const plain: string[] = []
  const sockets = new Set<Socket>()
  const requiredAuthorization = options.credentials === undefined ? null : `Basic ${Buffer.from(options.credentials).toString('base64')}`
  const server = createServer((request, response) => {
    plain.push(request.url ?? '')
    response.writeHead(405).end()
  })
  server.on('connection', (socket) => sockets.add(socket))
  server.on('connect', (request, socket: Socket, head) => {
    connects.push({ to: request.url ?? '', headers: request.headers })
    socket.on('error', () => undefined)
    if (options.isHung?.()) return
    if (requiredAuthorization !== null && request.headers['proxy-authorization'] !== requiredAuthorization) {
      socket.end('HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n')
      return
    }
    const onward = connect(port(), '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection Established\r\n\r\n')
      onward.write(head)
      onward.pipe(socket)
      socket.pipe(onward)
    })
    sockets.add(onward)
    onward.on('error', () => socket.destroy())
    onward.on('close', () => socket.destroy())
    socket.on('close', () => onward.destroy())
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  closeAfter(() => {
    for (const socket of sockets) socket.destroy()
    return new Promise((resolve) => void server.close(() => resolve()))
  })
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, connects, plain }
}
