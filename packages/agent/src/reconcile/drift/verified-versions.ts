// The last verified version of each member, to tell changes by other writers from own writes and status updates. Metadata decides whether
// a check is needed; the check itself is a dry run.
import { hash } from 'node:crypto'
import { findApplyEntry, identityKey, identityOf, type KubeObject, type ManagedFieldsEntry } from '@brokkr/kube'
import { FIELD_MANAGER } from '../plan/ownership-metadata.ts'

/** Metadata of a member that a watch keeps. */
export interface ObservedVersion {
  readonly key: string
  readonly uid: string
  readonly version: number
  /** Equal fingerprints: only the status changed in between. */
  readonly print: string
  /** Another manager wrote after the agent's last apply. */
  readonly isTouched: boolean
  /** Deletion timestamp. */
  readonly goingSince: string | null
}
interface VerifiedVersion {
  readonly uid: string
  readonly version: number
  readonly print: string | null
}

interface AppliedStack {
  readonly revision: string
  readonly hashes: ReadonlyMap<string, string>
}
const noHashes: ReadonlyMap<string, string> = new Map()

export class VerifiedVersions {
  readonly #marks = new Map<string, VerifiedVersion>()
  readonly #seen = new Map<string, ObservedVersion>()
  readonly #settled = new Map<string, AppliedStack>()

  /** This process applied the stack at this version. `hashes`: content hashes of its members by key, for small stacks. */
  recordApplied(stackId: string, revision: string, hashes: ReadonlyMap<string, string> = noHashes): void {
    this.#settled.set(stackId, { revision, hashes })
  }

  clearApplied(stackId: string): void {
    this.#settled.delete(stackId)
  }

  clearAllApplied(): void {
    this.#settled.clear()
  }

  isApplied(stackId: string, revision: string): boolean {
    return this.#settled.get(stackId)?.revision === revision
  }

  /** Content hashes of the members at the last apply. */
  hashesOf(stackId: string): ReadonlyMap<string, string> {
    return this.#settled.get(stackId)?.hashes ?? noHashes
  }

  /** The member is correct in this version, by an own write or by a dry run. */
  recordVerified(key: string, uid: string, resourceVersion: string): void {
    const version = parseVersion(resourceVersion)
    const observed = this.#seen.get(key)
    this.#marks.set(key, { uid, version, print: observed?.uid === uid && observed.version === version ? observed.print : null })
  }

  /** The object was deleted; a new object of the same name is another one. */
  forget(key: string, uid: string): void {
    for (const verified of [this.#marks, this.#seen]) if (verified.get(key)?.uid === uid) verified.delete(key)
  }

  /** Same check for an object that was read. A verified version needs no further comparison. */
  mayHaveDrifted(object: KubeObject): boolean {
    const { uid, resourceVersion = '' } = object.metadata
    const mark = this.#marks.get(identityKey(identityOf(object)))
    const isKnown = mark !== undefined && mark.uid === uid && parseVersion(resourceVersion) <= mark.version
    return !isKnown && this.isSuspect(toObservedVersion(object))
  }

  /** Records the observed version and returns true if another writer may have changed the member. */
  isSuspect(observed: ObservedVersion): boolean {
    const before = this.#seen.get(observed.key)
    if (!before || before.uid !== observed.uid || !(before.version > observed.version)) this.#seen.set(observed.key, observed)
    const mark = this.#marks.get(observed.key)
    const isSuspect = isSuspectVersion(observed, mark)
    if (!isSuspect && !(mark?.uid === observed.uid && mark.version > observed.version)) this.#marks.set(observed.key, observed)
    return isSuspect
  }

  get size(): number {
    return Math.max(this.#marks.size, this.#seen.size)
  }
}

function isSuspectVersion(observed: ObservedVersion, mark: VerifiedVersion | undefined): boolean {
  if (!mark || mark.uid !== observed.uid) return observed.isTouched
  if (observed.version <= mark.version) return false
  return mark.print === null ? observed.isTouched : mark.print !== observed.print
}

export function toObservedVersion(object: KubeObject): ObservedVersion {
  const { uid = '', resourceVersion = '', generation, deletionTimestamp, labels, annotations } = object.metadata
  const entries = (object.metadata.managedFields ?? []).filter((entry) => entry.subresource !== 'status')
  const print = hash('sha256', JSON.stringify([uid, generation, deletionTimestamp, labels, annotations, entries]), 'base64url')
  return {
    key: identityKey(identityOf(object)),
    uid,
    version: parseVersion(resourceVersion),
    print,
    isTouched: isTouched(object, entries),
    goingSince: deletionTimestamp ?? null,
  }
}

/** Times have a resolution of one second, so a write in the same second counts as later. */
function isTouched(object: KubeObject, entries: readonly ManagedFieldsEntry[]): boolean {
  const ownEntries = findApplyEntry(object, FIELD_MANAGER)
  if (!ownEntries) return true
  const ownMs = parseTime(ownEntries)
  return entries.some((entry) => entry !== ownEntries && parseTime(entry) >= ownMs)
}

const parseTime = ({ time }: ManagedFieldsEntry): number => {
  const ms = Date.parse(time ?? '')
  return Number.isNaN(ms) ? Number.POSITIVE_INFINITY : ms
}

/** Resource versions of one object are increasing numbers. Other formats cannot be compared and only cost a check. */
const parseVersion = (resourceVersion: string): number => (/^\d{1,15}$/.test(resourceVersion) ? Number(resourceVersion) : Number.NaN)
