// A database whose notifications never arrive: the same one by another address, where everything passes but the messages of NOTIFY.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Transform } from 'node:stream'

export type DeafPostgres = {
  readonly url: string
  /** Notifications swallowed so far. */
  readonly swallowed: number
  /** Passes them on from now on. */
  hear(): void
  close(): Promise<void>
}

/** `url` as `database()` gives it: a Unix socket, its folder and port in the query. */
export async function deafPostgres(url: string): Promise<DeafPostgres> {
  const [, credentials = '', name = '', query = ''] = /^postgresql:\/\/(.*)@\/([^?]*)\?(.*)$/.exec(url) ?? []
  const where = new URLSearchParams(query)
  const path = join(where.get('host') ?? '', `.s.PGSQL.${where.get('port') ?? ''}`)
  let isDeaf = true
  let swallowed = 0
  const open = new Set<Socket>()
  const server = createServer({ noDelay: true }, (client) => {
    const there = connect({ path })
    for (const socket of [client, there]) {
      open.add(socket)
      socket.on('error', () => socket.destroy()).on('close', () => (open.delete(socket), client.destroy(), there.destroy()))
    }
    client.pipe(there)
    there
      .pipe(
        messages((type) => {
          if (type !== notification || !isDeaf) return true
          swallowed += 1
          return false
        }),
      )
      .pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: `postgresql://${credentials}@127.0.0.1:${port}/${name}`,
    get swallowed() {
      return swallowed
    },
    hear: () => {
      isDeaf = false
    },
    close: async () => {
      server.close()
      for (const socket of open) socket.destroy()
      await once(server, 'close')
    },
  }
}

const notification = 'A'
const headBytes = 5

/** Splits what the server says into its messages (a type and a length each) and passes those that `wanted` says. */
function messages(wanted: (type: string) => boolean): Transform {
  let held: Buffer = Buffer.alloc(0)
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      held = held.length === 0 ? chunk : Buffer.concat([held, chunk])
      while (held.length >= headBytes) {
        const size = 1 + held.readUInt32BE(1)
        if (held.length < size) break
        const message = held.subarray(0, size)
        held = held.subarray(size)
        if (wanted(String.fromCharCode(message[0] ?? 0))) this.push(message)
      }
      done()
    },
  })
}
