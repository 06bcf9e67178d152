// Packed answers: a whole one at once, or one that is unpacked as it comes. What comes out is bounded like what comes in.
import { createGunzip, gunzipSync } from 'node:zlib'
import type { Answer } from './answer-error.ts'
import type { Body } from './body.ts'

/** Large pieces: putting thousands of small ones together costs more than unpacking them. */
const UNPACK_BYTES = 256 * 1024
/** Waking the unpacker costs as much as unpacking so much. */
const PACKED_BYTES = 16 * 1024

/** What claims to be packed is not, or not to its end. */
export class BadPacking extends Error {
  override readonly name = 'BadPacking'
}

export const isPacked = (headers: Answer['headers']): boolean => headers['content-encoding'] === 'gzip'

/** Throws RangeError where more than `bytesMax` would come out. */
export function unpack(bytes: Buffer, bytesMax: number): Buffer {
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax, chunkSize: UNPACK_BYTES })
  } catch (error) {
    throw error instanceof RangeError ? error : badPacking(error)
  }
}

/** Hands over what a packed body holds, piece by piece; a throw of `take` ends it. */
export async function unpackBody(body: Body, take: (bytes: Buffer) => void): Promise<void> {
  const gunzip = createGunzip({ chunkSize: UNPACK_BYTES })
  const failed = Promise.withResolvers<never>()
  failed.promise.catch(() => undefined) // it may fail while nobody waits
  let failure: Error | undefined
  const fail = (error: Error): void => {
    failure ??= error
    failed.reject(failure)
    gunzip.destroy()
  }
  gunzip.on('error', (error) => fail(badPacking(error)))
  gunzip.on('data', (bytes: Buffer) => {
    try {
      if (!failure) take(bytes)
    } catch (error) {
      fail(error as Error)
    }
  })
  const written = (bytes: Buffer) => new Promise<void>((resolve) => gunzip.write(bytes, () => resolve()))
  try {
    for (let bytes = await portionOf(body); bytes; bytes = await portionOf(body)) await Promise.race([written(bytes), failed.promise])
    const ended = new Promise<void>((resolve) => gunzip.once('end', resolve))
    gunzip.end()
    await Promise.race([ended, failed.promise])
  } finally {
    gunzip.destroy()
  }
}

async function portionOf(body: Body): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let bytes = 0
  while (bytes < PACKED_BYTES) {
    const more = await body.take()
    if (!more) break
    for (const chunk of more) bytes += chunks.push(chunk) && chunk.length
  }
  return chunks.length === 0 ? undefined : Buffer.concat(chunks, bytes)
}

const badPacking = (cause: unknown): BadPacking =>
  new BadPacking(`what came cannot be unpacked: ${cause instanceof Error ? cause.message : String(cause)}`, { cause })
