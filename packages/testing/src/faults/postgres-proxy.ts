// Fault proxy in front of a database: a second address with a link that can be cut and restored.
import { join } from 'node:path'
import { type FaultProxy, startFaultProxy } from './fault-proxy.ts'

export type ProxiedPostgres = { readonly url: string; readonly proxy: FaultProxy }

/** `url` as `database()` and `privatePostgres()` give it: a Unix socket, its folder and port in the query. */
export async function proxiedPostgres(url: string): Promise<ProxiedPostgres> {
  const [, credentials = '', name = '', query = ''] = /^postgresql:\/\/(.*)@\/([^?]*)\?(.*)$/.exec(url) ?? []
  const where = new URLSearchParams(query)
  const proxy = await startFaultProxy({ target: { path: join(where.get('host') ?? '', `.s.PGSQL.${where.get('port') ?? ''}`) } })
  return { url: `postgresql://${credentials}@127.0.0.1:${proxy.port}/${name}`, proxy }
}
