// An address that leads somewhere else on command, as a balancer or the name of a database does: connections to the old place are
// cut, new ones go to the new. It can also cut what says nothing for too long.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type SwitchTarget = { host: string; port: number } | { path: string }
export type SwitchProxy = {
  readonly port: number
  readonly url: string
  switchTo(target: SwitchTarget): void
  /** Connections that were cut because they said nothing. */
  readonly idleCuts: number
  readonly open: number
  close(): Promise<void>
}

export async function startSwitchProxy(options: { target: SwitchTarget; idleMs?: number }): Promise<SwitchProxy> {
  let { target } = options
  let idleCuts = 0
  const pairs = new Set<() => void>()
  const server = createServer({ noDelay: true }, (client) => {
    const there = connect({ ...target, noDelay: true })
    const cut = () => {
      pairs.delete(cut)
      for (const socket of [client, there]) socket.destroy()
    }
    pairs.add(cut)
    for (const socket of [client, there]) socket.on('error', cut).on('close', cut)
    if (options.idleMs !== undefined) cutIdle([client, there], options.idleMs, () => (idleCuts++, cut()))
    client.pipe(there).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    port,
    url: `http://127.0.0.1:${port}`,
    get idleCuts() {
      return idleCuts
    },
    get open() {
      return pairs.size
    },
    switchTo: (next) => {
      target = next
      for (const cut of pairs) cut()
    },
    close: async () => {
      server.close()
      for (const cut of pairs) cut()
      await once(server, 'close')
    },
  }
}

/** Bytes in either direction count. */
function cutIdle(sockets: readonly Socket[], idleMs: number, cut: () => void): void {
  let timer = setTimeout(cut, idleMs)
  for (const socket of sockets) {
    socket.on('data', () => {
      clearTimeout(timer)
      timer = setTimeout(cut, idleMs)
    })
    socket.on('close', () => clearTimeout(timer))
  }
}
