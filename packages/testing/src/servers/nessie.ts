// A real Nessie for tests: one server per run, a namespace per test. Where a test must kill it, one of its own.
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { type NessieAddress, type NessieServer, startNessie } from './nessie-server.ts'
import { callServers } from './owner/client.ts'
import type { S3Address } from './s3-server.ts'

export type { NessieServer }

/** A namespace of its own. */
export type NessieNamespace = {
  /** For a flow's baseURL. */
  readonly url: string
  readonly warehouse: string
  readonly namespace: string
  readonly s3: S3Address
}

export async function nessieNamespace(): Promise<NessieNamespace> {
  return namespaceOn(await callServers('nessie', {}))
}

/** A server of its own, to be killed and restarted. It ends with this process, the test file or the run, whichever is first. */
export async function privateNessie(s3: S3Address): Promise<NessieServer & { namespace(): Promise<NessieNamespace> }> {
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const server = await startNessie({ dir: join(folder, 'nessie'), s3 })
  const noted = () => callServers('loan.note', { folder, processes: [server.process] })
  await noted()
  return Object.assign(Object.create(server) as NessieServer, {
    start: async () => {
      await server.start()
      await noted()
    },
    namespace: () => namespaceOn(server.address),
  })
}

async function namespaceOn({ url, warehouse, s3 }: NessieAddress): Promise<NessieNamespace> {
  const namespace = `test_${randomBytes(6).toString('hex')}`
  const answer = await fetch(`${url}/iceberg/v1/main%7C${warehouse}/namespaces`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ namespace: [namespace], properties: {} }),
    signal: AbortSignal.timeout(120_000),
  })
  if (!answer.ok) throw new Error(`cannot create the namespace ${namespace}: HTTP ${answer.status} ${await answer.text()}`)
  return { url, warehouse, namespace, s3 }
}
