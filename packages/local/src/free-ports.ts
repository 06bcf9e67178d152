// Ports of 127.0.0.1 that nobody listens on. All are held open together until the last one is known, so that they differ. Where the
// system says from which number on it gives ports to connections that go out, ours lie below: one of those would take a port between
// our look and the start of the server that gets it.
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
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

const triesMax = 50
const span = 16_384

async function listen(): Promise<Server> {
  const end = firstOutgoingPort()
  for (let left = end === undefined ? 0 : triesMax; left > 0; left--) {
    const server = await listenOn(randomInt(end! - span, end!)).catch(() => undefined)
    if (server) return server
  }
  return listenOn(0).catch((cause) => Promise.reject(new Error('cannot find a free port on 127.0.0.1', { cause })))
}

/** Undefined where the system does not say, or leaves too little room below. */
function firstOutgoingPort(): number | undefined {
  try {
    const first = Number(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'utf8').split(/\s+/)[0])
    return first - span >= 1024 ? first : undefined
  } catch {
    return undefined
  }
}

function listenOn(port: number): Promise<Server> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen({ host: '127.0.0.1', port, exclusive: true }, () => resolve(server))
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
