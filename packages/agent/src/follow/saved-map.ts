// The map of wanted stacks to and from what is kept of it: the state file, and the manifests saved in the cluster. Content whose
// checksum is not the one that was noted is not taken.
import type { DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import type { SavedStack, SavedState } from '../state-file.ts'
import { contentBytesMax, type HeldObject, holdObject, sha256, textOf } from './held-object.ts'
import { Levels, type WantedStack } from './levels.ts'
import { WantedMap } from './wanted-map.ts'

type SavedMap = Pick<SavedState, 'epoch' | 'boot' | 'cursor' | 'seen' | 'wanted' | 'leaving'>

export const savedMap = ({ levels, epoch, boot, cursor, seen }: WantedMap): SavedMap => ({
  epoch,
  boot,
  cursor,
  seen,
  wanted: [...levels.wanted.values()].map(savedStack),
  leaving: [...levels.leaving.values()].map((leaving) => ({ ...leaving, last: leaving.last && savedStack(leaving.last) })),
})

const savedStack = ({ object, ...stack }: WantedStack): SavedStack => ({
  ...stack,
  object: object && { ...object, content: object.content.toString('base64') },
})

/** Null: some content is not what it says, so none of it is believed. */
export function mapOf(saved: SavedMap): WantedMap | null {
  const map = new WantedMap()
  try {
    for (const stack of saved.wanted) map.levels.wanted.set(stack.stackId, stackOf(stack))
    for (const { last, ...leaving } of saved.leaving) map.levels.leaving.set(leaving.stackId, { ...leaving, last: last && stackOf(last) })
  } catch {
    return null
  }
  const { epoch, boot, cursor, seen } = saved
  return Object.assign(map, { epoch, boot, cursor, seen })
}

function stackOf({ object, line, ...stack }: SavedStack): WantedStack {
  return {
    ...stack,
    line,
    object: object && checked({ ...object, content: Buffer.from(object.content, 'base64') }),
  }
}

function checked(object: HeldObject): HeldObject {
  if (sha256(textOf(object)) !== object.checksum) throw new TypeError('content of another checksum')
  return object
}

/** One stack as its parent in the cluster keeps it. */
export interface KeptStack {
  readonly stackId: string
  readonly rev: number
  readonly sequenceId: number
  readonly objectId: string
  readonly drift: string
  readonly checksum: string
  /** gzip of the manifest; null: it was too large to be kept. */
  readonly manifest: Buffer | null
}

/** What ran before the start, to be healed until the broker says what it wants. It knows no history, so it has no cursor. */
export function mapOfKept(kept: readonly KeptStack[]): WantedMap {
  const map = new WantedMap()
  map.levels = new Levels()
  for (const stack of kept) {
    const object = heldOf(stack)
    if (object === null) continue
    const drift = stack.drift === 'report' || stack.drift === 'off' ? stack.drift : 'heal'
    const stackId = stack.stackId as StackId
    map.levels.wanted.set(stackId, {
      stackId,
      stackName: '',
      rev: stack.rev,
      drift,
      line: { id: object.id, checksum: object.checksum },
      object,
    })
  }
  return map
}

function heldOf({ manifest, objectId, sequenceId, checksum }: KeptStack): HeldObject | null {
  if (manifest === null || manifest.length > contentBytesMax) return null
  try {
    const held = holdObject({ id: objectId as DeploymentObjectId, sequenceId, isMarker: false }, textOf({ content: manifest }))
    return held.checksum === checksum ? held : null
  } catch {
    return null
  }
}
