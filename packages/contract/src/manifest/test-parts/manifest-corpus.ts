// Corpus of manifests, each with the objects that kubectl reads from it. `code` is present where this reader rejects the text;
// without it, both must agree.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { type JsonObject, type JsonValue, jsonText } from '../json-text.ts'
import type { ManifestErrorCode } from '../manifest-error.ts'

export interface CorpusCase {
  readonly name: string
  readonly file: string
  readonly text: string
  /** Canonical JSON of the objects; null if kubectl rejects the file. */
  readonly kubectl: string[] | null
  readonly code: ManifestErrorCode | undefined
}

const folder = join(import.meta.dirname, '../../../../testing/corpus/manifests')

export function readCorpus(): CorpusCase[] {
  const names = readdirSync(folder).flatMap((file) => (file.endsWith('.yaml') ? [file.slice(0, -'.yaml'.length)] : []))
  return names.map((name) => {
    const file = join(folder, `${name}.yaml`)
    const recorded = parseExactly(readFileSync(join(folder, `${name}.json`), 'utf8')) as unknown as Recorded
    return { name, file, text: readFileSync(file, 'utf8'), kubectl: recorded.kubectl?.map(canonicalText) ?? null, code: recorded.code }
  })
}

interface Recorded {
  readonly kubectl: JsonObject[] | null
  readonly code?: ManifestErrorCode
}

type Reviver = (key: string, value: JsonValue, context: { source?: string }) => JsonValue

/** Integers keep their digits, as they do in what jsonText prints. */
export function parseExactly(text: string): JsonObject {
  return (JSON.parse as (text: string, reviver: Reviver) => JsonObject)(text, (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined && /^-?\d{16,}$/.test(source) ? BigInt(source) : value,
  )
}

export const canonicalText = (value: JsonValue): string => jsonText(sorted(value))

function sorted(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const keys = Object.keys(value).toSorted()
  return Object.assign(Object.create(null) as JsonObject, Object.fromEntries(keys.map((key) => [key, sorted(value[key] as JsonValue)])))
}
