// Kinds of fields that only transforms use.
import { z } from 'zod'
import { type Path, parsePath, type Segment } from '../language/path.ts'
import { child, isMap, type Kind, refuse, refuseType, type SpecLocation } from './field.ts'
import { choice } from './kinds.ts'
import { readPath } from './kinds-language.ts'

/** Text in which blanks are significant. */
export const filledText: Kind<string> = {
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    return value === '' ? refuse(at, 'V17', 'must not be empty') : value
  },
  print: (value) => value,
  schema: z.string(),
  takesBlank: true,
}

export const oneKey: Kind<string> = {
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    return value.includes('.') ? refuse(at, 'V17', 'must be one key without dots') : value
  },
  print: (value) => value,
  schema: z.string(),
}

const castTypes = ['string', 'int64', 'float64', 'bool', 'null'] as const
export type CastType = (typeof castTypes)[number]
export interface CastEntry {
  readonly path: Path
  readonly to: CastType
}

/** A map of path to type. null may be the word or JSON's null. */
export const castSpec: Kind<readonly CastEntry[]> = {
  read: (value, at) =>
    readEntries(value, at, (key, entry, here) => {
      const path = readPath(key, 'edit', here)
      const to = entry === null ? 'null' : choice(castTypes).read(entry, here)
      return path === undefined || to === undefined ? undefined : { path, to }
    }),
  print: (entries) => Object.fromEntries(entries.map(({ path, to }) => [path.text, to])),
  schema: z.record(z.string(), z.string()),
}

export type InsertValue =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'now' }
  | { readonly kind: 'metadata'; readonly segments: readonly Segment[]; readonly text: string }
  | { readonly kind: 'json'; readonly text: string }
export interface InsertEntry {
  readonly path: Path
  readonly value: InsertValue
}

/** A map of path to value: text, `${now}`, `${metadata.…}` or `json:…`. */
export const insertFields: Kind<readonly InsertEntry[]> = {
  read: (value, at) =>
    readEntries(value, at, (key, entry, here) => {
      const path = readPath(key, 'set', here)
      const inserted = typeof entry === 'string' ? readInsert(entry, here) : refuseType(here, 'string', entry)
      return path === undefined || inserted === undefined ? undefined : { path, value: inserted }
    }),
  print: (entries) => Object.fromEntries(entries.map(({ path, value }) => [path.text, printInsert(value)])),
  schema: z.record(z.string(), z.string()),
}

function readEntries<T>(
  value: unknown,
  at: SpecLocation,
  read: (key: string, entry: unknown, here: SpecLocation) => T | undefined,
): T[] | undefined {
  if (!isMap(value)) return refuseType(at, 'map', value)
  const entries = Object.entries(value).map(([key, entry]) => read(key, entry, child(at, key)))
  if (entries.length === 0) return refuse(at, 'V14', 'needs at least one entry')
  return entries.includes(undefined) ? undefined : (entries as T[])
}

function readInsert(text: string, at: SpecLocation): InsertValue | undefined {
  if (text === '${now}') return { kind: 'now' }
  if (text.startsWith('json:'))
    return isJson(text.slice(5)) ? { kind: 'json', text: text.slice(5) } : refuse(at, 'V17', 'the text after json: is not JSON')
  const metadata = /^\$\{metadata\.(.+)\}$/s.exec(text)?.[1]
  if (metadata === undefined) return { kind: 'text', text }
  const parsed = parsePath(metadata)
  if (parsed.ok) return { kind: 'metadata', segments: parsed.value.segments, text }
  return refuse(at, 'V12', `column ${parsed.column + '${metadata.'.length}: ${parsed.reason}`)
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch {
    return false
  }
}

function printInsert(value: InsertValue): string {
  if (value.kind === 'now') return '${now}'
  return value.kind === 'json' ? `json:${value.text}` : value.text
}
