// Converts the sync state to and from its stored forms: the state file, and manifests in the cluster. Content with a wrong checksum is
// rejected.
import type { DeploymentObjectId, StackId } from '@brokkr/contract/wire.ts'
import { type CachedManifest, cacheManifest, contentBytesMax, readManifest, sha256 } from './cached-manifest.ts'
import { type DesiredStack, DesiredState } from './desired-state.ts'
import type { SavedStack, SavedState } from './state-file.ts'
import { SyncState } from './sync-state.ts'

type SavedSync = Pick<SavedState, 'epoch' | 'boot' | 'cursor' | 'seen' | 'wanted' | 'leaving'>

export const toSavedState = ({ desired, epoch, boot, cursor, lastCursor }: SyncState): SavedSync => ({
  epoch,
  boot,
  cursor,
  seen: lastCursor,
  wanted: [...desired.stacks.values()].map(toSavedStack),
  leaving: [...desired.removals.values()].map((removal) => ({ ...removal, last: removal.last && toSavedStack(removal.last) })),
})

const toSavedStack = ({ object, digestEntry, ...stack }: DesiredStack): SavedStack => ({
  ...stack,
  line: digestEntry,
  object: object && toSavedObject(object),
})

const toSavedObject = ({ id, sequenceId, isDeletionMarker, checksum, content }: CachedManifest): NonNullable<SavedStack['object']> => ({
  id,
  sequenceId,
  isMarker: isDeletionMarker,
  checksum,
  content: content.toString('base64'),
})

/** Null: some content is corrupt, so nothing is used. */
export function restoreSyncState(saved: SavedSync): SyncState | null {
  const state = new SyncState()
  try {
    for (const stack of saved.wanted) state.desired.stacks.set(stack.stackId, toDesiredStack(stack))
    for (const { last, ...removal } of saved.leaving)
      state.desired.removals.set(removal.stackId, { ...removal, last: last && toDesiredStack(last) })
  } catch {
    return null
  }
  const { epoch, boot, cursor, seen: lastCursor } = saved
  return Object.assign(state, { epoch, boot, cursor, lastCursor })
}

function toDesiredStack({ object, line, ...stack }: SavedStack): DesiredStack {
  return {
    ...stack,
    digestEntry: line,
    object: object && requireChecksum(toManifest(object)),
  }
}

const toManifest = ({ isMarker, content, ...object }: NonNullable<SavedStack['object']>): CachedManifest => ({
  ...object,
  isDeletionMarker: isMarker,
  content: Buffer.from(content, 'base64'),
})

function requireChecksum(object: CachedManifest): CachedManifest {
  if (sha256(readManifest(object)) !== object.checksum) throw new TypeError('manifest checksum mismatch')
  return object
}

/** A stack as stored by its parent in the cluster. */
export interface StoredStack {
  readonly stackId: string
  readonly rev: number
  readonly sequenceId: number
  readonly objectId: string
  readonly drift: string
  readonly checksum: string
  /** gzip of the manifest; null: it was too large to be stored. */
  readonly manifest: Buffer | null
}

/** Restores the stacks of the last run, which are healed until the broker responds. Has no epoch and no cursor. */
export function restoreFromParents(stored: readonly StoredStack[]): SyncState {
  const state = new SyncState()
  state.desired = new DesiredState()
  for (const stack of stored) {
    const object = toCachedManifest(stack)
    if (object === null) continue
    const drift = stack.drift === 'report' || stack.drift === 'off' ? stack.drift : 'heal'
    const stackId = stack.stackId as StackId
    state.desired.stacks.set(stackId, {
      stackId,
      stackName: '',
      rev: stack.rev,
      drift,
      digestEntry: { id: object.id, checksum: object.checksum },
      object,
    })
  }
  return state
}

function toCachedManifest({ manifest, objectId, sequenceId, checksum }: StoredStack): CachedManifest | null {
  if (manifest === null || manifest.length > contentBytesMax) return null
  try {
    const manifestObject = cacheManifest(
      { id: objectId as DeploymentObjectId, sequenceId, isDeletionMarker: false },
      readManifest({ content: manifest }),
    )
    return manifestObject.checksum === checksum ? manifestObject : null
  } catch {
    return null
  }
}
