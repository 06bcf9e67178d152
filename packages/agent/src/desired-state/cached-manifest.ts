// A deployment object in memory, with checksum and gzip content: thousands are cached. The latest manifest stays uncompressed until its
// `content` is requested or the next manifest is cached.
import { createHash } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { DeploymentObjectId } from '@brokkr/contract/wire.ts'

export interface CachedManifest {
  readonly id: DeploymentObjectId
  readonly sequenceId: number
  readonly isDeletionMarker: boolean
  /** Hex SHA-256 of the cached text, computed here and never copied from a frame. */
  readonly checksum: string
  /** gzip of the text, as stored in the cluster. */
  readonly content: Buffer
}

/** A deployment object has at most 8 MiB; the rest is reserve for a broker with a larger limit. */
export const contentBytesMax = 32 * 1024 * 1024

/** The latest manifest is usually applied at once, so compressing and decompressing it would be wasted work. */
let latest: { readonly object: CachedManifest; readonly text: string; readonly compress: () => void } | null = null

export function cacheManifest(
  { id, sequenceId, isDeletionMarker }: Pick<CachedManifest, 'id' | 'sequenceId' | 'isDeletionMarker'>,
  text: string,
): CachedManifest {
  let cached: string | Buffer = text
  const compress = (): Buffer => {
    if (typeof cached === 'string') cached = gzipSync(cached, { level: 6 })
    if (latest?.object === object) latest = null
    return cached
  }
  const object: CachedManifest = {
    id,
    sequenceId,
    isDeletionMarker,
    checksum: sha256(text),
    get content() {
      return compress()
    },
  }
  latest?.compress()
  latest = { object, text, compress }
  return object
}

export const readManifest = (object: Pick<CachedManifest, 'content'>): string =>
  latest?.object === object ? latest.text : gunzipSync(object.content, { maxOutputLength: contentBytesMax }).toString('utf8')

export const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex')
