// A second address of a database on which a query without parameters, such as `begin`, fails as if it had been canceled before it ran. The
// real server answers: the proxy replaces the text of the query.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { Transform } from 'node:stream'

export type PostgresWithFailingQuery = {
  readonly url: string
  /** Fails the next query with this text. */
  failNext(text: string): void
  readonly failures: number
  close(): Promise<void>
}

/** `url` as `database()` gives it: a Unix socket, its folder and port in the query. */
export async function postgresWithFailingQuery(url: string): Promise<PostgresWithFailingQuery> {
  const [, credentials = '', name = '', query = ''] = /^postgresql:\/\/(.*)@\/([^?]*)\?(.*)$/.exec(url) ?? []
  const where = new URLSearchParams(query)
  const path = join(where.get('host') ?? '', `.s.PGSQL.${where.get('port') ?? ''}`)
  let failing: string | null = null
  let failures = 0
  const replace = (text: string): string => {
    if (text !== failing) return text
    failing = null
    failures += 1
    return canceledQuery
  }
  const sockets = new Set<Socket>()
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ path })
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => socket.destroy()).on('close', () => (sockets.delete(socket), client.destroy(), upstream.destroy()))
    }
    client.pipe(replaceQueries(replace)).pipe(upstream).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    url: `postgresql://${credentials}@127.0.0.1:${(server.address() as AddressInfo).port}/${name}`,
    failNext: (text) => (failing = text),
    get failures() {
      return failures
    },
    close: async () => {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}

/** The error of a cancel request. */
const canceledQuery = `do $$ begin raise exception 'canceling statement due to user request' using errcode = '57014'; end $$`

/** Splits the client's output into messages and rewrites simple queries. The startup message has a length and no type. */
function replaceQueries(replace: (text: string) => string): Transform {
  let pending: Buffer = Buffer.alloc(0)
  let typeBytes = 0
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      pending = pending.length === 0 ? chunk : Buffer.concat([pending, chunk])
      while (pending.length >= typeBytes + 4) {
        const size = typeBytes + pending.readUInt32BE(typeBytes)
        if (pending.length < size) break
        const message = pending.subarray(0, size)
        pending = pending.subarray(size)
        this.push(typeBytes === 1 && message[0] === simpleQuery ? toSimpleQuery(replace(message.toString('utf8', 5, size - 1))) : message)
        typeBytes = 1
      }
      done()
    },
  })
}

const simpleQuery = 'Q'.charCodeAt(0)

function toSimpleQuery(text: string): Buffer {
  const message = Buffer.from(`Q....${text}\0`)
  message.writeUInt32BE(message.length - 1, 1)
  return message
}
