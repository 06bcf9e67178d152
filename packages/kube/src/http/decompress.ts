// Decompresses gzip responses, whole or while they arrive, with a limit on the decompressed size.
import { createGunzip, gunzipSync } from 'node:zlib'
import type { KubeResponse } from '../client/response-error.ts'
import type { StreamedBody } from './streamed-body.ts'

/** Large output chunks: joining thousands of small ones costs more than decompressing them. */
const UNPACK_BYTES = 256 * 1024
/** Input is collected up to this size, because a call of zlib costs as much as decompressing this many bytes. */
const PACKED_BYTES = 16 * 1024

/** The content is not valid gzip, or it is truncated. */
export class BadCompression extends Error {
  override readonly name = 'BadCompression'
}

export const isGzipped = (headers: KubeResponse['headers']): boolean => headers['content-encoding'] === 'gzip'

/** Throws RangeError if the result would exceed `bytesMax`. */
export function decompress(bytes: Buffer, bytesMax: number): Buffer {
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax, chunkSize: UNPACK_BYTES })
  } catch (error) {
    throw error instanceof RangeError ? error : badCompression(error)
  }
}

/** Passes on the decompressed body in chunks; a throw of `take` ends it. */
export async function decompressBody(body: StreamedBody, take: (bytes: Buffer) => void): Promise<void> {
  const gunzip = createGunzip({ chunkSize: UNPACK_BYTES })
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => undefined) // Prevents an unhandled rejection if it fails outside of a wait.
  let failure: Error | undefined
  const fail = (error: Error): void => {
    failure ??= error
    failed.reject(failure)
    gunzip.destroy()
  }
  gunzip.on('error', (error) => fail(badCompression(error)))
  gunzip.on('data', (bytes: Buffer) => {
    try {
      if (!failure) take(bytes)
    } catch (error) {
      fail(error as Error)
    }
  })
  const written = (bytes: Buffer) => new Promise<void>((resolve) => gunzip.write(bytes, () => resolve()))
  try {
    for (let bytes = await takePortion(body); bytes; bytes = await takePortion(body)) await Promise.race([written(bytes), failed.promise])
    const decompressed = new Promise<void>((resolve) => gunzip.once('end', resolve))
    gunzip.end()
    await Promise.race([decompressed, failed.promise])
  } finally {
    gunzip.destroy()
  }
}

async function takePortion(body: StreamedBody): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  while (bytes < PACKED_BYTES) {
    const more = await body.take()
    if (!more) break
    for (const chunk of more) bytes += chunks.push(chunk) && chunk.length
  }
  return chunks.length === 0 ? undefined : Buffer.concat(chunks, bytes)
}

const badCompression = (cause: unknown): BadCompression =>
  new BadCompression(`the response cannot be decompressed: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
