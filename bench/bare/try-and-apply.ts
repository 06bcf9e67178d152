// The bare loop of an agent's work: for each object a dry run and an apply, by undici alone, as many connections as the agent has
// requests in flight, nothing read but the status.
import { readFileSync } from 'node:fs'
import { Agent } from 'undici'
import { configMapText } from '../kube/objects.ts'

const [url, caFile, token, namespace, countText, value] = process.argv.slice(2) as [string, string, string, string, string, string]
const count = Number(countText)
const agent = new Agent({ connections: 32, pipelining: 1, allowH2: false, connect: { ca: readFileSync(caFile, 'utf8') } })
const send = async (n: number, query: string): Promise<void> => {
  const { statusCode, body } = await agent.request({
    origin: url,
    method: 'PATCH',
    path: `/api/v1/namespaces/${namespace}/configmaps/c${n}?fieldManager=bare&force=true${query}`,
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/apply-patch+yaml' },
    body: configMapText(namespace, n, value),
  })
  await body.dump()
  if (statusCode >= 300) throw new Error(`status ${statusCode}`)
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
