// The key that an agent made itself: kept in a Secret of its own namespace, renewed without ever leaving the process in clear
// text. Whatever step a crash comes between, the Secret holds the key that the broker knows: as `pak`, or as `next`.
import { hashPak, makePak } from '@brokkr/contract/pak.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import type { Kube } from '@brokkr/kube/kube.ts'

export interface KeptKey {
  readonly pak: string
  /** Made for the renewal that is under way. */
  readonly next: string | null
  /** When the broker first took `pak`, in Unix ms; null: it has not yet. */
  readonly sinceMs: number | null
}
export interface KeyStore {
  read(): Promise<KeptKey | null>
  save(key: KeptKey): Promise<void>
}
/** Yes, no, or a throw where nobody knows. */
export interface KeyJudge {
  isValid(pak: string): Promise<boolean>
  /** False: the broker does not know `old` any more. */
  rotate(old: string, next: { short: string; hash: string }): Promise<boolean>
}

const secretName = 'brokkr-agent-pak'

export function keyStore(deps: { kube: Kube }, namespace: string, signal?: AbortSignal): KeyStore {
  const at = { apiVersion: 'v1', kind: 'Secret' }
  return {
    async read() {
      const secret = await deps.kube.find({ ...at, namespace, name: secretName }, { signal })
      const text = (key: string) => Buffer.from(textAt(secret, 'data', key) ?? '', 'base64').toString('utf8')
      const pak = text('pak')
      const since = Date.parse(text('since'))
      return pak === '' ? null : { pak, next: text('next') || null, sinceMs: Number.isNaN(since) ? null : since }
    },
    async save({ pak, next, sinceMs }) {
      const clear = { pak, ...(next === null ? {} : { next }), ...(sinceMs === null ? {} : { since: new Date(sinceMs).toISOString() }) }
      const data = Object.fromEntries(Object.entries(clear).map(([key, value]) => [key, Buffer.from(value).toString('base64')]))
      await deps.kube.apply(
        { ...at, metadata: { name: secretName, namespace }, type: 'Opaque', data },
        { fieldManager: 'brokkr-agent', force: true, signal },
      )
    },
  }
}

/** The key to sign in with: `pak`, or `next` where a renewal got through and its answer did not. */
export async function pickKey(deps: { store: KeyStore; judge: KeyJudge; now: () => number }, kept: KeptKey): Promise<KeptKey> {
  if (kept.next === null || (await deps.judge.isValid(kept.pak))) return kept
  if (!(await deps.judge.isValid(kept.next))) return kept
  const renewed = { pak: kept.next, next: null, sinceMs: deps.now() }
  await deps.store.save(renewed)
  return renewed
}

/** Null: the broker takes neither key. Throws when it does not answer; the next call goes on with the same `next`. */
export async function renewKey(deps: { store: KeyStore; judge: KeyJudge; now: () => number }, kept: KeptKey): Promise<KeptKey | null> {
  const next = kept.next ?? (await makePak()).pak
  // Kept before the broker hears of it: from its answer on, nothing else opens the door.
  if (kept.next === null) await deps.store.save({ ...kept, next })
  const isRotated = await deps.judge.rotate(kept.pak, await partsOf(next))
  if (!isRotated && !(await deps.judge.isValid(next))) return null
  const renewed = { pak: next, next: null, sinceMs: deps.now() }
  await deps.store.save(renewed)
  return renewed
}

/** What the broker may know of a key: the short part and a hash. */
export async function partsOf(pak: string): Promise<{ short: string; hash: string }> {
  const [short, hash] = [pak.split('_')[1], await hashPak(pak)]
  if (short === undefined || hash === null) throw new TypeError(`Secret ${secretName} holds something that is no key`)
  return { short, hash }
}
