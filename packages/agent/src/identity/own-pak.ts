// A PAK that the agent created: stored in a Secret of its namespace, renewed without sending it in clear text. After a crash at any step
// the Secret holds the valid PAK, as `pak` or as `next`.
import { generatePak, hashPak } from '@brokkr/contract/auth/pak.ts'
import { type Kube, textAt } from '@brokkr/kube'

export interface StoredPak {
  readonly pak: string
  /** Created for a renewal in progress. */
  readonly next: string | null
  /** Time of the first acceptance of `pak`, in Unix ms; null: not accepted yet. */
  readonly sinceMs: number | null
}
export interface PakStore {
  read(): Promise<StoredPak | null>
  save(key: StoredPak): Promise<void>
}
/** Throws if the broker's decision is unknown. */
export interface PakProbe {
  isValid(pak: string): Promise<boolean>
  /** Returns false if the broker no longer accepts `old`. */
  rotate(old: string, next: { short: string; hash: string }): Promise<boolean>
}

const secretName = 'brokkr-agent-pak'

export function createPakStore(deps: { kube: Kube }, namespace: string, signal?: AbortSignal): PakStore {
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

/** Chooses the PAK for the sign-in: `pak`, or `next` if a renewal succeeded and its response was lost. */
export async function choosePak(deps: { store: PakStore; probe: PakProbe; now: () => number }, stored: StoredPak): Promise<StoredPak> {
  if (stored.next === null || (await deps.probe.isValid(stored.pak))) return stored
  if (!(await deps.probe.isValid(stored.next))) return stored
  const renewed = { pak: stored.next, next: null, sinceMs: deps.now() }
  // A failed write must not block the sign-in: the Secret still holds the PAK as `next`.
  await deps.store.save(renewed).catch(() => undefined)
  return renewed
}

export interface RenewDeps {
  readonly store: PakStore
  readonly probe: PakProbe
  readonly now: () => number
  /** Receives the PAK to use after each step, so that the process does not depend on the Secret. */
  readonly remember?: (key: StoredPak) => void
}

/** Null: the broker accepts neither PAK. Throws if a step fails; the next call continues with the same `next`. */
export async function renewPak({ store, probe, now, remember }: RenewDeps, stored: StoredPak): Promise<StoredPak | null> {
  const next = stored.next ?? (await generatePak()).pak
  // Stored before the broker receives it: after its response no other PAK is valid.
  if (stored.next === null) await store.save({ ...stored, next })
  remember?.({ ...stored, next })
  const isRotated = await probe.rotate(stored.pak, await parsePak(next))
  if (!isRotated && !(await probe.isValid(next))) return null
  const renewed = { pak: next, next: null, sinceMs: now() }
  remember?.(renewed)
  await store.save(renewed)
  return renewed
}

/** The parts that the broker stores: short token and hash. */
export async function parsePak(pak: string): Promise<{ short: string; hash: string }> {
  const [short, hash] = [pak.split('_')[1], await hashPak(pak)]
  if (short === undefined || hash === null) throw new TypeError(`Secret ${secretName} does not contain a PAK`)
  return { short, hash }
}
