// A deployment object as the agent holds it: hashed by us, compressed, and opened only for a run. Manifests hold secrets and
// thousands of them are held at once.
import { createHash } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import type { DeploymentObjectId } from '@brokkr/contract/wire.ts'

export interface HeldObject {
  readonly id: DeploymentObjectId
  readonly sequenceId: number
  readonly isMarker: boolean
  /** Hex SHA-256 of the text that is held, made here and never copied from a frame. */
  readonly checksum: string
  /** gzip of the text, as it is also kept in the cluster. */
  readonly content: Buffer
}

/** One deployment object is at most 8 MiB; the rest is room for a broker with a larger limit. */
export const contentBytesMax = 32 * 1024 * 1024

export function holdObject(object: Pick<HeldObject, 'id' | 'sequenceId' | 'isMarker'>, text: string): HeldObject {
  const { id, sequenceId, isMarker } = object
  return { id, sequenceId, isMarker, checksum: sha256(text), content: gzipSync(text, { level: 6 }) }
}

export const textOf = (object: Pick<HeldObject, 'content'>): string =>
  gunzipSync(object.content, { maxOutputLength: contentBytesMax }).toString('utf8')

export const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex')
