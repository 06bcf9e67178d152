// Compresses a response if the client accepts it. Small responses and streams are not compressed.
import { promisify } from 'node:util'
import { brotliCompress, constants, createBrotliCompress, createGzip, gzip } from 'node:zlib'
import type { HttpResponse } from './send-response.ts'

/** Smaller responses are not compressed. */
export const compressBytesMin = 1024

/** Returns the response unchanged, or compressed with its headers. */
export async function compressed(answer: HttpResponse, acceptEncoding: string | undefined): Promise<HttpResponse> {
  if (answer.body.length <= compressBytesMin) return answer
  const headers = { ...answer.headers, vary: 'accept-encoding' }
  const encoding = encodingFor(acceptEncoding ?? '')
  if (encoding === null) return { ...answer, headers }
  return { ...answer, headers: { ...headers, 'content-encoding': encoding }, body: await packers[encoding](answer.body) }
}

type Encoding = 'br' | 'gzip'

/** Chooses by our preference among the accepted encodings; `q=0` excludes one, `*` means gzip. */
export function encodingFor(accepted: string): Encoding | null {
  const offers = new Map(accepted.toLowerCase().split(',').map(parseEncodingOffer))
  const isOffered = (name: string) => (offers.get(name) ?? 0) > 0
  if (isOffered('br')) return 'br'
  return isOffered('gzip') || (isOffered('*') && !offers.has('gzip')) ? 'gzip' : null
}

function parseEncodingOffer(part: string): [name: string, weight: number] {
  const [name = '', ...parameters] = part.split(';').map((text) => text.trim())
  const weight = parameters.find((parameter) => parameter.startsWith('q='))
  return [name, weight === undefined ? 1 : Number(weight.slice(2)) || 0]
}

const asyncGzip = promisify(gzip)
const asyncBrotli = promisify(brotliCompress)
// Both settings compress JSON at about 100 MB/s; the highest ones are a hundred times slower for a few percent.
const settings = { gzip: { level: 4 }, br: { params: { [constants.BROTLI_PARAM_QUALITY]: 4 } } }
const packers: Readonly<Record<Encoding, (body: string | Buffer) => Promise<Buffer>>> = {
  gzip: (body) => asyncGzip(body, settings.gzip),
  br: (body) => asyncBrotli(body, settings.br),
}

/** For a response that is sent in pages. */
export const createCompressor = (encoding: Encoding) => (encoding === 'br' ? createBrotliCompress(settings.br) : createGzip(settings.gzip))
