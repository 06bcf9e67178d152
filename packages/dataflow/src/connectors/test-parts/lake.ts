// A namespace of the run's Nessie, its tables as Trino sees them, and its objects, for tests of the Iceberg connectors.

import type { NessieNamespace } from '@brokkr/testing/servers/nessie.ts'
import { AwsClient } from 'aws4fetch'

/** Settings of a flow's source or sink, with keys for the object store. */
export const lakeConfig = ({ url, warehouse, namespace, s3 }: NessieNamespace, more: object): Record<string, unknown> => ({
  baseURL: url,
  warehouse,
  namespace,
  s3Endpoint: s3.endpoint,
  s3Region: s3.region,
  accessKey: s3.accessKey,
  secretAccessKey: s3.secretAccessKey,
  ...more,
})

/** Keys of all objects below the table's folder. */
export async function listObjects({ namespace, s3 }: NessieNamespace, table: string): Promise<string[]> {
  const client = new AwsClient({ accessKeyId: s3.accessKey, secretAccessKey: s3.secretAccessKey, service: 's3', region: s3.region })
  const answer = await client.fetch(`${s3.endpoint}/${s3.bucket}?list-type=2&prefix=${namespace}/${table}_`)
  const text = await answer.text()
  if (!answer.ok) throw new Error(`cannot list objects: HTTP ${answer.status} ${text}`)
  return [...text.matchAll(/<Key>([^<]+)<\/Key>/g)].map((match) => match[1]!)
}

interface TableState {
  readonly snapshots: readonly { readonly summary: Readonly<Record<string, string>> }[]
  readonly properties: Readonly<Record<string, string>>
}

/** The table's metadata as the catalog sends it. */
export async function loadState({ url, warehouse, namespace }: NessieNamespace, table: string, ref = 'main'): Promise<TableState> {
  const answer = await fetch(`${url}/iceberg/v1/${encodeURIComponent(`${ref}|${warehouse}`)}/namespaces/${namespace}/tables/${table}`)
  if (!answer.ok) throw new Error(`cannot load ${table}: HTTP ${answer.status}`)
  return ((await answer.json()) as { metadata: TableState }).metadata
}

/** Summaries of all snapshots that the branch had of the table, the newest first: each commit of the branch shows one. */
export async function listSummaries(place: NessieNamespace, table: string): Promise<Readonly<Record<string, string>>[]> {
  const filter = `operations.exists(op, op.key == '${place.namespace}.${table}')`
  const answer = await fetch(`${place.url}/api/v2/trees/main/history?fetch=ALL&max-records=500&filter=${encodeURIComponent(filter)}`)
  const { logEntries } = (await answer.json()) as { logEntries: { commitMeta: { hash: string } }[] }
  const states = await Promise.all(logEntries.map(({ commitMeta }) => loadState(place, table, `main@${commitMeta.hash}`)))
  return states.flatMap(({ snapshots }) => snapshots.map(({ summary }) => summary))
}
