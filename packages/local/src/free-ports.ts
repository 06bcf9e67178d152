// Ports of 127.0.0.1 that nobody listens on. All are held open together until the last one is known, so that they differ.
import { createServer, type Server } from 'node:net'

/** The ports are free at the moment of return; whoever gets them should bind soon and try again when somebody was faster. */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = []
  try {
    for (let i = 0; i < count; i++) servers.push(await listen())
    return servers.map(portOf)
  } finally {
    await Promise.all(servers.map(close))
  }
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1)
  return port as number
}

function listen(): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (cause) => reject(new Error('cannot find a free port on 127.0.0.1', { cause })))
    server.listen({ host: '127.0.0.1', port: 0, exclusive: true }, () => resolve(server))
  })
}

function portOf(server: Server): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a listening server on 127.0.0.1 has no port')
  return address.port
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}
