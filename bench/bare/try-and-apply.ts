// The bare loop of an agent's work: for each object the same dry run and the same apply, marks included, by undici alone, over as
// many connections as the agent has requests in flight, nothing read but the status.
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Agent } from 'undici'
import { configMap } from '../kube/objects.ts'

const [url, caFile, token, namespace, countText, value] = process.argv.slice(2) as [string, string, string, string, string, string]
const count = Number(countText)
const agent = new Agent({ connections: 32, pipelining: 1, allowH2: false, connect: { ca: readFileSync(caFile, 'utf8') } })
const query = 'fieldManager=bare&fieldValidation=Strict&force=true'
const send = async (n: number, more: string): Promise<void> => {
  const { statusCode, body } = await agent.request({
    origin: url,
    method: 'PATCH',
    path: `/api/v1/namespaces/${namespace}/configmaps/c${n}?${query}${more}`,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/apply-patch+yaml' },
    body: buildBody(n),
  })
  await body.dump()
  if (statusCode >= 300) throw new Error(`status ${statusCode}`)
}
const id = '0c000000-0000-4000-8000-000000000001'
const checksum = createHash('sha256').update(value).digest('hex')

/** What the agent writes on every member costs the API server as much as the rest of a small object. */
function buildBody(n: number): string {
  const object = configMap(namespace, n, value)
  const marks = { 'brokkr.io/owner-id': id, 'brokkr.io/deployment-object-id': id }
  const labels = { ...marks, 'brokkr.io/stack': id, 'applyset.kubernetes.io/part-of': `applyset-${checksum.slice(0, 43)}-v1` }
  const annotations = {
    ...marks,
    'k8s.brokkr.io/stack': id,
    'brokkr.io/applied-hash': checksum,
    'k8s.brokkr.io/deployment-checksum': checksum,
    'k8s.brokkr.io/last-config-applied': checksum,
  }
  return JSON.stringify({ ...object, metadata: { ...object.metadata, labels: { ...object.metadata.labels, ...labels }, annotations } })
}

const started = performance.now()
let next = 0
const lane = async (): Promise<void> => {
  for (let n = next++; n < count; n = next++) {
    await send(n, '&dryRun=All')
    await send(n, '')
  }
}
await Promise.all(Array.from({ length: 32 }, lane))
process.stdout.write(JSON.stringify({ seconds: (performance.now() - started) / 1000 }))
await agent.close()
