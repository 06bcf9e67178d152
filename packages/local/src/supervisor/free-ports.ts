// Finds unused ports of 127.0.0.1. Holds all of them open until the last is found, so that they differ. Stays below the range of
// outgoing connections where the system publishes it, because an outgoing connection could take the port before the server binds
// it.
import { randomInt } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:net'

/** The ports are free on return; another program can take one before the caller binds it. */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = []
  try {
    for (let i = 0; i < count; i++) servers.push(await listen())
    return servers.map(readPort)
  } finally {
    await Promise.all(servers.map(close))
  }
}

export async function freePort(): Promise<number> {
  const [port] = await freePorts(1)
  return port as number
}

const attemptsMax = 50
const span = 16_384

async function listen(): Promise<Server> {
  const end = firstOutgoingPort()
  for (let attemptsLeft = end === undefined ? 0 : attemptsMax; attemptsLeft > 0; attemptsLeft--) {
    const server = await listenOn(randomInt(end! - span, end!)).catch(() => undefined)
    if (server) return server
  }
  return listenOn(0).catch((cause) => Promise.reject(new Error('cannot find a free port on 127.0.0.1', { cause })))
}

/** Undefined if the system does not publish the range, or too few ports are below it. */
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

function readPort(server: Server): number {
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('a listening server on 127.0.0.1 has no port')
  return address.port
}

function close(server: Server): Promise<void> {
  return new Promise((resolve) => server.close(() => resolve()))
}
