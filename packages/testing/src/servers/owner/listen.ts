// Serves the owner's Unix socket: one request per connection, answered when its server is ready.
import { once } from 'node:events'
import { chmodSync, mkdirSync } from 'node:fs'
import { createServer, type Server, type Socket } from 'node:net'
import { dirname } from 'node:path'
import type { Handlers, Reply, Request } from './protocol.ts'

const requestBytesMax = 1024 * 1024

export async function listenForCalls(socketPath: string, handlers: Handlers): Promise<Server> {
  // A process that can reach the socket can start programs as this user.
  mkdirSync(dirname(socketPath), { mode: 0o700 })
  const server = createServer((socket) => void serve(socket, handlers))
  server.listen(socketPath)
  await once(server, 'listening')
  chmodSync(socketPath, 0o600)
  return server
}

async function serve(socket: Socket, handlers: Handlers): Promise<void> {
  // A test that was ended early has closed its end; its server stays for the next one.
  socket.on('error', () => {})
  try {
    const line = await readLine(socket)
    if (line) socket.end(`${JSON.stringify(await reply(JSON.parse(line) as Request, handlers))}\n`)
  } catch {
    socket.destroy()
  }
}

async function readLine(socket: Socket): Promise<string | undefined> {
  let text = ''
  for await (const chunk of socket.setEncoding('utf8').iterator({ destroyOnReturn: false })) {
    text += chunk as string
    if (text.length > requestBytesMax) throw new Error('the request is too long')
    if (text.endsWith('\n')) return text
  }
  return undefined
}

async function reply(request: Request, handlers: Handlers): Promise<Reply> {
  const handle = handlers[request.call] as (given: object, by: Request['by']) => Promise<unknown>
  try {
    return { answer: await handle(request.given, request.by) }
  } catch (error) {
    const { name, message } = error instanceof Error ? error : new Error(String(error))
    return { failed: { name, message } }
  }
}
