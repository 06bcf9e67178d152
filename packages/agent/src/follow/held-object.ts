// A deployment object as the agent holds it: hashed by us, compressed, and opened only for a run. Manifests hold secrets and
// thousands of them are held at once. The newest one is compressed only when its run is done with it.
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

/** The newest is mostly run at once: its text stays at hand until it is packed, which is when somebody asks for that or the next one comes. */
let newest: { readonly object: HeldObject; readonly text: string; readonly pack: () => void } | null = null

export function holdObject({ id, sequenceId, isMarker }: Pick<HeldObject, 'id' | 'sequenceId' | 'isMarker'>, text: string): HeldObject {
  let held: string | Buffer = text
  const pack = (): Buffer => {
    if (typeof held === 'string') held = gzipSync(held, { level: 6 })
    if (newest?.object === object) newest = null
    return held
  }
  const object: HeldObject = {
    id,
    sequenceId,
    isMarker,
    checksum: sha256(text),
    get content() {
      return pack()
    },
  }
  newest?.pack()
  newest = { object, text, pack }
  return object
}

export const textOf = (object: Pick<HeldObject, 'content'>): string =>
  newest?.object === object ? newest.text : gunzipSync(object.content, { maxOutputLength: contentBytesMax }).toString('utf8')

export const sha256 = (text: string): string => createHash('sha256').update(text, 'utf8').digest('hex')
