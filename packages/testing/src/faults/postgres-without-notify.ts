// A second address of a database that drops NOTIFY messages and forwards everything else.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Transform } from 'node:stream'

export type PostgresWithoutNotify = {
  readonly url: string
  /** Notifications swallowed so far. */
  readonly swallowed: number
  /** Passes them on from now on. */
  hear(): void
  close(): Promise<void>
}

/** `url` as `database()` gives it: a Unix socket, its folder and port in the query. */
export async function postgresWithoutNotify(url: string): Promise<PostgresWithoutNotify> {
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

/** Splits the server's output into messages (type and length) and forwards those that `wanted` accepts. */
function messages(wanted: (type: string) => boolean): Transform {
  let buffered: Buffer = Buffer.alloc(0)
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      buffered = buffered.length === 0 ? chunk : Buffer.concat([buffered, chunk])
      while (buffered.length >= headBytes) {
        const size = 1 + buffered.readUInt32BE(1)
        if (buffered.length < size) break
        const message = buffered.subarray(0, size)
        buffered = buffered.subarray(size)
        if (wanted(String.fromCharCode(message[0] ?? 0))) this.push(message)
      }
      done()
    },
  })
}
