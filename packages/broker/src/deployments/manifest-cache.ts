// Cache of opened manifests. A stack usually targets many agents and deployment objects are immutable, so a manifest that is requested a
// second time is cached for some minutes. When a fleet starts, each manifest is read and opened twice instead of once per agent. Manifests
// requested once are not cached, because they would fill the heap without a reuse. The caller checks permissions before it reads.

import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { LRUCache } from 'lru-cache'
import { type Seal, UnsealFailed } from '../seal.ts'
import * as targetState from '../targeting/store/target-state.ts'
import { toManifestContext } from './rules/stored-manifest.ts'

export interface ManifestCache {
  /** Opens a manifest that the caller read. Throws UnsealFailed. */
  open(id: string, sealed: Buffer): string
  /** Manifests that exist by id; null if no key of the ring opens one. The caller limits the page size. */
  load(sql: Sql, ids: readonly string[]): Promise<Map<string, string | null>>
  /** The manifest as JSON string bytes from its second use on; null before, and if it is not cached. */
  json(id: string): Buffer | null
  /** Empties the cache. */
  forget(): void
}

/** In bytes of memory. Larger manifests are read rarely and never sent in frames. */
const [cacheBytesMax, manifestBytesMax] = [16 << 20, 128 << 10]
/** Manifests can contain secrets, so opened ones stay in memory only as long as a fleet needs to reconnect. */
const cacheLifeMs = 5 * 60_000

/** Number of slots that remember requested ids by a 32-bit fingerprint; a later id overwrites its slot. */
const requestedSlots = 1 << 15

interface CachedManifest {
  readonly text: string
  readonly json: Buffer | null
  wasWritten: boolean
}

export function createManifestCache({ seal, clock }: { seal: Seal; clock: Clock }): ManifestCache {
  const cache = new LRUCache<string, CachedManifest>({ maxSize: cacheBytesMax, sizeCalculation: sizeInMemory })
  const requested = new Int32Array(requestedSlots)
  /** A collision of fingerprints only caches a manifest needlessly. */
  const wasRequestedBefore = (id: string): boolean => {
    const fingerprint = Number.parseInt(id.slice(-8), 16) | 0
    const slot = fingerprint & (requestedSlots - 1)
    const isRepeated = requested[slot] === fingerprint
    requested[slot] = fingerprint
    return isRepeated
  }
  let expiry: { cancel(): void } | null = null
  const forget = () => {
    expiry?.cancel()
    expiry = null
    cache.clear()
  }
  const store = (id: string, text: string) => {
    if (textSizeInMemory(text) > manifestBytesMax) return
    cache.set(id, { text, json: null, wasWritten: false })
    expiry ??= clock.setTimer(cacheLifeMs, forget)
  }
  const open = (id: string, sealed: Buffer): string => seal.open(toManifestContext(id), sealed)
  const openOrNull = (id: string, sealed: Buffer): string | null => {
    try {
      return open(id, sealed)
    } catch {
      return null // the caller reports it
    }
  }
  return {
    open,
    load: async (sql, ids) => {
      const texts = new Map<string, string | null>()
      for (const id of ids) {
        const found = cache.get(id)
        if (found !== undefined) texts.set(id, found.text)
      }
      const missing = texts.size === 0 ? [...ids] : ids.filter((id) => !texts.has(id))
      const found = missing.length === 0 ? [] : await targetState.listSealed(sql, { ids: missing })
      for (const { id, sealed } of found) {
        const text = openOrNull(id, sealed)
        texts.set(id, text)
        if (text !== null && wasRequestedBefore(id)) store(id, text)
      }
      return texts
    },
    json: (id) => {
      const found = cache.get(id)
      if (found === undefined || found.json !== null || !found.wasWritten) {
        if (found !== undefined) found.wasWritten = true
        return found?.json ?? null
      }
      const json = toJsonBytes(found.text)
      cache.set(id, { ...found, json })
      return json
    },
    forget,
  }
}

/** Allocates outside Node's buffer pool, because a pooled slice would keep its whole page alive. */
function toJsonBytes(text: string): Buffer {
  const json = JSON.stringify(text)
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(json))
  bytes.write(json)
  return bytes
}

const sizeInMemory = ({ text, json }: CachedManifest): number => textSizeInMemory(text) + (json === null ? 0 : json.length + 100)

/** V8 may store a string with non-ASCII characters with two bytes per character. */
const textSizeInMemory = (text: string): number => (Buffer.byteLength(text) === text.length ? 1 : 2) * text.length + 100

// Reads and opens manifests of many deployment objects in pages, so that no database response grows with the length of a list.

const [pageRows, pageBytes] = [500, 1024 * 1024]

/** Returns a manifest for each row or throws; a missing manifest must never appear as an empty one. */
export async function openManifests(
  { sql, texts }: { sql: Sql; texts: ManifestCache },
  rows: readonly { readonly id: string; readonly yaml_bytes: number }[],
): Promise<Map<string, string>> {
  const manifests = new Map<string, string>()
  for (const page of splitIntoPages(rows)) {
    const ids = page.map(({ id }) => id)
    const batch = await texts.load(sql, ids)
    for (const id of ids) manifests.set(id, batch.get(id) ?? throwUnreadable(id))
  }
  return manifests
}

function throwUnreadable(id: string): never {
  throw new UnsealFailed(`the manifest of deployment object ${id} is missing or cannot be opened with any configured key`)
}

/** Pages of at most 500 rows or 1 MiB; a row with a larger manifest is a page of its own. */
export function* splitIntoPages<Row extends { readonly yaml_bytes: number }>(rows: readonly Row[]): Generator<Row[]> {
  let [page, bytes]: [Row[], number] = [[], 0]
  for (const row of rows) {
    if (page.length === pageRows || (page.length > 0 && bytes + row.yaml_bytes > pageBytes)) {
      yield page
      ;[page, bytes] = [[], 0]
    }
    page.push(row)
    bytes += row.yaml_bytes
  }
  if (page.length > 0) yield page
}
