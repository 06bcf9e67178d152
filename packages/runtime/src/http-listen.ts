// Opens and closes the port of an HTTP server: one way for probes and hooks.
import type { Server } from 'node:http'

/** `name` says in the error which part cannot listen. */
export function listenOn(server: Server, at: { name: string; host: string; port: number }): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  const { name, host, port } = at
  const fail = (cause: Error) =>
    reject(new Error(`${name} cannot listen on ${host}:${port}: choose another port or end the program that has it`, { cause }))
  server.once('error', fail)
  server.listen(port, host, () => {
    server.off('error', fail)
    resolve()
  })
  return promise
}

/** Requests under way get `graceMs` to finish; idle connections do not. */
export function closeServer(server: Server, graceMs: number): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(() => server.closeAllConnections(), graceMs)
  server.close(() => {
    clearTimeout(timer)
    resolve()
  })
  server.closeIdleConnections()
  return promise
}
