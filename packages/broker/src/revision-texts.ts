// The texts of revisions. A stack mostly goes to many agents and a revision never changes, so a text that was opened for a second agent is
// kept for some minutes for the next: when a fleet starts, or comes back after a restart, each is read and opened twice, not once per
// agent. One that a single agent has is not kept: a fleet of such would fill the heap with what nobody asks for. Who may read a revision is decided before it comes here, by whoever listed it.
import type { Clock } from '@brokkr/runtime/clock.ts'
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
  /** As answers have it, from the second time it is written on; null before, and when it is not kept. */
  json(id: string): Buffer | null
  /** Keeps nothing of what was opened so far. */
  forget(): void
}

/** In bytes of memory. Larger texts are read rarely and are no part of any frame. */
const [keptBytes, textBytesMax] = [16 << 20, 128 << 10]
/** Sealed at rest is a promise about secrets: what is open stays no longer than a fleet needs to come back, however idle the broker is. */
const keptMs = 5 * 60_000

/** How many ids are remembered that were asked for, by a part of each in the place it points to: later ones take it over. */
const askedMax = 1 << 15

interface Kept {
  readonly text: string
  readonly json: Buffer | null
  wasWritten: boolean
}

export function createRevisionTexts({ seal, clock }: { seal: Seal; clock: Clock }): RevisionTexts {
  const kept = new LRUCache<string, Kept>({ maxSize: keptBytes, sizeCalculation: memoryOf })
  const asked = new Int32Array(askedMax)
  /** Whether it was asked for before, as far as that is remembered. A wrong yes keeps a text that need not be kept. */
  const wasAsked = (id: string): boolean => {
    const part = Number.parseInt(id.slice(-8), 16) | 0
    const place = part & (askedMax - 1)
    const isKnown = asked[place] === part
    asked[place] = part
    return isKnown
  }
  let end: { cancel(): void } | null = null
  const forget = () => {
    end?.cancel()
    end = null
    kept.clear()
  }
  const keep = (id: string, text: string) => {
    if (memoryOfText(text) > textBytesMax) return
    kept.set(id, { text, json: null, wasWritten: false })
    end ??= clock.setTimer(keptMs, forget)
  }
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
        const found = kept.get(id)
        if (found !== undefined) texts.set(id, found.text)
      }
      const missing = texts.size === 0 ? [...ids] : ids.filter((id) => !texts.has(id))
      const found = missing.length === 0 ? [] : await targetState.sealedOf(sql, { ids: missing })
      for (const { id, sealed } of found) {
        const text = openOrNull(id, sealed)
        texts.set(id, text)
        if (text !== null && wasAsked(id)) keep(id, text)
      }
      return texts
    },
    json: (id) => {
      const found = kept.get(id)
      if (found === undefined || found.json !== null || !found.wasWritten) {
        if (found !== undefined) found.wasWritten = true
        return found?.json ?? null
      }
      const json = jsonOf(found.text)
      kept.set(id, { ...found, json })
      return json
    },
    forget,
  }
}

/** In memory of its own: a slice of Node's pool would hold all of its page. */
function jsonOf(text: string): Buffer {
  const json = JSON.stringify(text)
  const bytes = Buffer.allocUnsafeSlow(Buffer.byteLength(json))
  bytes.write(json)
  return bytes
}

const memoryOf = ({ text, json }: Kept): number => memoryOfText(text) + (json === null ? 0 : json.length + 100)

/** A text with anything beyond ASCII may take two bytes for each of its characters. */
const memoryOfText = (text: string): number => (Buffer.byteLength(text) === text.length ? 1 : 2) * text.length + 100
