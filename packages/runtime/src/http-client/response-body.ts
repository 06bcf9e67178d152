// Reads the response body of an untrusted server within a byte limit and classifies its failures.
import { Terminal } from '../errors.ts'

export type Overflow = 'fail' | 'cut'
type Limits = { bytesMax: number; where: string; explain(thrown: unknown): unknown }

/** The chunks of the body up to `bytesMax`, then Terminal `answer_too_large`. Leaving the loop early closes the connection. */
export async function* limitBody(body: AsyncIterable<Buffer>, limits: Limits): AsyncGenerator<Buffer> {
  let bytes = 0
  try {
    for await (const chunk of body) {
      bytes += chunk.length
      if (bytes > limits.bytesMax) throw tooLargeError(limits)
      yield chunk
    }
  } catch (thrown) {
    throw limits.explain(thrown)
  }
}

export async function readBody(body: AsyncIterable<Buffer>, bytesMax: number): Promise<{ body: Buffer; isCut: boolean }> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    bytes += chunk.length
    if (bytes > bytesMax) return { body: Buffer.concat(chunks, bytesMax), isCut: true }
  }
  return { body: Buffer.concat(chunks), isCut: false }
}

function tooLargeError({ bytesMax, where }: Limits): Terminal {
  return new Terminal(`${where}: the answer is larger than ${bytesMax} bytes`, { code: 'answer_too_large' })
}
