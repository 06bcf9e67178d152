// The end of a container's log: so many lines of it, and of those no more than fits.
import type { Kube } from '@brokkr/kube/kube.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'

export interface TailOf {
  readonly container: string
  readonly previous?: boolean
  readonly lines: number
  readonly bytes: number
}

export async function logTail(kube: Pick<Kube, 'open'>, { metadata }: KubeObject, of: TailOf, signal: AbortSignal): Promise<string> {
  const path = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}/log`
  const query = { container: of.container, tailLines: of.lines, ...(of.previous ? { previous: true } : {}) }
  const answer = await kube.open(path, { query, signal, timeoutMs: 10_000 })
  try {
    return await endOfBody(answer.body as AsyncIterable<Buffer>, of.bytes)
  } finally {
    answer.close()
  }
}

/** Lines may be long: only their end is kept, and a log without end is left. */
async function endOfBody(body: AsyncIterable<Buffer>, bytes: number): Promise<string> {
  const chunks: Buffer[] = []
  let [kept, read] = [0, 0]
  for await (const chunk of body) {
    chunks.push(chunk)
    kept += chunk.length
    read += chunk.length
    while (kept - (chunks[0]?.length ?? 0) > bytes) kept -= chunks.shift()?.length ?? 0
    if (read > logBytesMax) break
  }
  return Buffer.concat(chunks).toString('utf8')
}

const logBytesMax = 64 * 1024 * 1024
