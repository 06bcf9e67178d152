// Which state of each member we last found right, so that a change by another hand can be told from our own writes and from
// status. Metadata alone decides whether it is worth a look; the look itself is a dry run. In doubt it is.
import { hash } from 'node:crypto'
import { applyEntryOf } from '@brokkr/kube/managed-fields.ts'
import { identityKey, identityOf, type KubeObject, type ManagedFieldsEntry } from '@brokkr/kube/object.ts'
import { FIELD_MANAGER } from './marks.ts'

/** What a watch keeps of a member. */
export interface Seen {
  readonly key: string
  readonly uid: string
  readonly version: number
  /** Equal prints: nobody changed anything but status in between. */
  readonly print: string
  /** Somebody wrote after our last apply. */
  readonly isTouched: boolean
  /** Since when it is on its way out. */
  readonly goingSince: string | null
}
interface Mark {
  readonly uid: string
  readonly version: number
  readonly print: string | null
}

interface Settled {
  readonly revision: string
  readonly hashes: ReadonlyMap<string, string>
}
const noHashes: ReadonlyMap<string, string> = new Map()

export class CleanMarks {
  readonly #marks = new Map<string, Mark>()
  readonly #seen = new Map<string, Seen>()
  readonly #settled = new Map<string, Settled>()

  /** This process found the whole stack as this revision wants it; `hashes`: of its members by key, as far as they are worth keeping. */
  settle(stackId: string, revision: string, hashes: ReadonlyMap<string, string> = noHashes): void {
    this.#settled.set(stackId, { revision, hashes })
  }

  unsettle(stackId: string): void {
    this.#settled.delete(stackId)
  }

  unsettleAll(): void {
    this.#settled.clear()
  }

  isSettled(stackId: string, revision: string): boolean {
    return this.#settled.get(stackId)?.revision === revision
  }

  /** What the members of a settled stack were last wanted to be. */
  hashesOf(stackId: string): ReadonlyMap<string, string> {
    return this.#settled.get(stackId)?.hashes ?? noHashes
  }

  /** The member is as it should be in this version, by our own write or by a dry run. */
  mark(key: string, uid: string, resourceVersion: string): void {
    const version = versionOf(resourceVersion)
    const seen = this.#seen.get(key)
    this.#marks.set(key, { uid, version, print: seen?.uid === uid && seen.version === version ? seen.print : null })
  }

  /** The object is gone; one made meanwhile under its name is another. */
  forget(key: string, uid: string): void {
    for (const known of [this.#marks, this.#seen]) if (known.get(key)?.uid === uid) known.delete(key)
  }

  /** The same question about an object as it was read; what we know in this very version is not looked at closely. */
  mayBeTouched(object: KubeObject): boolean {
    const { uid, resourceVersion = '' } = object.metadata
    const mark = this.#marks.get(identityKey(identityOf(object)))
    const isKnown = mark !== undefined && mark.uid === uid && versionOf(resourceVersion) <= mark.version
    return !isKnown && this.isSuspect(seenOf(object))
  }

  /** Remembers what was seen, and says whether another hand may have changed the member. */
  isSuspect(seen: Seen): boolean {
    const before = this.#seen.get(seen.key)
    if (!before || before.uid !== seen.uid || !(before.version > seen.version)) this.#seen.set(seen.key, seen)
    const mark = this.#marks.get(seen.key)
    const isSuspect = judge(seen, mark)
    if (!isSuspect && !(mark?.uid === seen.uid && mark.version > seen.version)) this.#marks.set(seen.key, seen)
    return isSuspect
  }

  get size(): number {
    return Math.max(this.#marks.size, this.#seen.size)
  }
}

function judge(seen: Seen, mark: Mark | undefined): boolean {
  if (!mark || mark.uid !== seen.uid) return seen.isTouched
  if (seen.version <= mark.version) return false
  return mark.print === null ? seen.isTouched : mark.print !== seen.print
}

export function seenOf(object: KubeObject): Seen {
  const { uid = '', resourceVersion = '', generation, deletionTimestamp, labels, annotations } = object.metadata
  const entries = (object.metadata.managedFields ?? []).filter((entry) => entry.subresource !== 'status')
  const print = hash('sha256', JSON.stringify([uid, generation, deletionTimestamp, labels, annotations, entries]), 'base64url')
  return {
    key: identityKey(identityOf(object)),
    uid,
    version: versionOf(resourceVersion),
    print,
    isTouched: isTouched(object, entries),
    goingSince: deletionTimestamp ?? null,
  }
}

/** Times are whole seconds, so a write in the same second as ours counts as later. */
function isTouched(object: KubeObject, entries: readonly ManagedFieldsEntry[]): boolean {
  const own = applyEntryOf(object, FIELD_MANAGER)
  if (!own) return true
  const ownMs = timeOf(own)
  return entries.some((entry) => entry !== own && timeOf(entry) >= ownMs)
}

const timeOf = ({ time }: ManagedFieldsEntry): number => {
  const ms = Date.parse(time ?? '')
  return Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms
}

/** Versions of one object are numbers that grow; of anything else nobody knows which is later, which only costs a look. */
const versionOf = (resourceVersion: string): number => (/^\d{1,15}$/.test(resourceVersion) ? Number(resourceVersion) : Number.NaN)
