// The texts of revisions. A stack mostly goes to many agents and a revision never changes, so a text that was opened for one agent is
// kept for a while for the next: when a fleet starts, or comes back after a restart, each is read and opened once, not once per agent.
import { LRUCache } from 'lru-cache'
import { sealedYaml } from './domain/sealed-yaml.ts'
import type { Seal } from './seal.ts'
import type { Sql } from './store/sql.ts'
import * as targetState from './store/target-state.ts'

export interface RevisionTexts {
  /** What was read already. Throws UnsealFailed. */
  open(id: string, sealed: Buffer): string
  /** Of those that are there; null where no key of the ring opens it. The caller says in which pages. */
  load(sql: Sql, ids: readonly string[]): Promise<Map<string, string | null>>
}

/** In characters, of which most take a byte. Larger texts are read rarely and are no part of any frame. */
const [charactersMax, textMax] = [16 << 20, 128 << 10]

export function createRevisionTexts(seal: Seal): RevisionTexts {
  const kept = new LRUCache<string, string>({ maxSize: charactersMax, maxEntrySize: textMax, sizeCalculation: (text) => text.length + 100 })
  const open = (id: string, sealed: Buffer): string => seal.open(sealedYaml(id), sealed)
  const openOrNull = (id: string, sealed: Buffer): string | null => {
    try {
      return open(id, sealed)
    } catch {
      return null // whoever asked says what that means
    }
  }
  return {
    open,
    load: async (sql, ids) => {
      const texts = new Map<string, string | null>()
      for (const id of ids) {
        const text = kept.get(id)
        if (text !== undefined) texts.set(id, text)
      }
      const missing = texts.size === 0 ? [...ids] : ids.filter((id) => !texts.has(id))
      const found = missing.length === 0 ? [] : await targetState.sealedOf(sql, { ids: missing })
      for (const { id, sealed } of found) {
        const text = openOrNull(id, Buffer.from(sealed, 'base64'))
        texts.set(id, text)
        if (text !== null) kept.set(id, text)
      }
      return texts
    },
  }
}
