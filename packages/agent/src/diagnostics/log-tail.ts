// Reads the end of a container's log, limited in lines and bytes.
import type { Kube, KubeObject } from '@brokkr/kube'

export interface LogTailOptions {
  readonly container: string
  readonly previous?: boolean
  readonly lines: number
  readonly bytes: number
}

export async function readLogTail(
  kube: Pick<Kube, 'open'>,
  { metadata }: KubeObject,
  of: LogTailOptions,
  signal: AbortSignal,
): Promise<string> {
  const path = `/api/v1/namespaces/${metadata.namespace}/pods/${metadata.name}/log`
  const query = { container: of.container, tailLines: of.lines, ...(of.previous ? { previous: true } : {}) }
  const answer = await kube.open(path, { query, signal, timeoutMs: 10_000 })
  try {
    return await endOfBody(answer.body as AsyncIterable<Buffer>, of.bytes)
  } finally {
    answer.close()
  }
}

/** Keeps only the end, and stops reading a log above the limit. */
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
