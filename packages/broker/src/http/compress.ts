// Packs an answer for a client that asks for it. Small ones are not worth it, and streams never pass here.
import { promisify } from 'node:util'
import { brotliCompress, constants, gzip } from 'node:zlib'
import type { Answer } from './send-answer.ts'

/** Smaller answers go out as they are. */
export const worthBytes = 1024

/** The answer as it was, or packed with the headers that say so. */
export async function compressed(answer: Answer, acceptEncoding: string | undefined): Promise<Answer> {
  if (answer.body.length <= worthBytes) return answer
  const headers = { ...answer.headers, vary: 'accept-encoding' }
  const encoding = encodingFor(acceptEncoding ?? '')
  if (encoding === null) return { ...answer, headers }
  return { ...answer, headers: { ...headers, 'content-encoding': encoding }, body: await packers[encoding](answer.body) }
}

type Encoding = 'br' | 'gzip'

/** By our preference among what is accepted; `q=0` is a refusal, `*` stands for gzip. */
export function encodingFor(accepted: string): Encoding | null {
  const offers = new Map(accepted.toLowerCase().split(',').map(offerOf))
  const isOffered = (name: string) => (offers.get(name) ?? 0) > 0
  if (isOffered('br')) return 'br'
  return isOffered('gzip') || (isOffered('*') && !offers.has('gzip')) ? 'gzip' : null
}

function offerOf(part: string): [name: string, weight: number] {
  const [name = '', ...parameters] = part.split(';').map((text) => text.trim())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))
  return [name, weight === undefined ? 1 : Number(weight.slice(2)) || 0]
}

const asyncGzip = promisify(gzip)
const asyncBrotli = promisify(brotliCompress)
// Both settings pack JSON at some 100 MB a second; the highest ones are a hundred times slower for a few percent.
const packers: Readonly<Record<Encoding, (body: string | Buffer) => Promise<Buffer>>> = {
  gzip: (body) => asyncGzip(body, { level: 4 }),
  br: (body) => asyncBrotli(body, { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } }),
}
