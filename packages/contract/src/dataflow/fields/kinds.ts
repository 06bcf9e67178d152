// Plain kinds of fields: text, choices, times as text, lists and maps.
import { z } from 'zod'
import { parseInstant } from '../language/instant.ts'
import { isIanaZone, parseZone } from '../language/zone.ts'
import { wordsKey } from '../structural-schema.ts'
import { parseCron } from './cron.ts'
import { child, isMap, item, type Kind, refuse, refuseType, type SpecLocation } from './field.ts'

const same = <T>(value: T): T => value

export const text: Kind<string> = {
  read: (value, at) => (typeof value === 'string' ? value : refuseType(at, 'string', value)),
  print: same,
  schema: z.string(),
}

export const flag: Kind<boolean> = {
  read: (value, at) => (typeof value === 'boolean' ? value : refuseType(at, 'boolean', value)),
  print: same,
  schema: z.boolean(),
}

/** One of several words, in any case; `fold` maps other spellings. */
export const choice = <const V extends string>(values: readonly V[], fold: (value: string) => string = same): Kind<V> => ({
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    const normalized = fold(value.trim()).toLowerCase()
    const match = values.find((candidate) => candidate.toLowerCase() === normalized)
    return match ?? refuseUnknown(at, value, values)
  },
  print: same,
  schema: z.string().meta({ [wordsKey]: values }),
})

export const refuseUnknown = (at: SpecLocation, value: string, known: readonly string[]): undefined =>
  refuse(at, 'V3', `"${value}" is not known; use one of: ${known.toSorted().join(', ')}`)

/** `true`, `false`, or an id: a change of the value asks once. */
export const request: Kind<boolean | string> = {
  read: (value, at) => (typeof value === 'boolean' || typeof value === 'string' ? value : refuseType(at, 'boolean or text', value)),
  print: same,
  schema: z.union([z.boolean(), z.string()]),
}

/** Text of certificates and keys. The text is not quoted: it may be a key. */
export const pem: Kind<string> = {
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    return value.includes('-----BEGIN') ? value : refuse(at, 'V10', 'is not PEM text: it must contain -----BEGIN')
  },
  print: same,
  schema: z.string(),
}

/** Text that must parse (V10). */
const parsed = (kind: string, isValid: (value: string) => boolean): Kind<string> => ({
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    return isValid(value) ? value : refuse(at, 'V10', `"${value}" is not a ${kind}`)
  },
  print: same,
  schema: z.string(),
})

export const time = parsed('RFC3339 time', (value) => parseInstant(value) !== undefined)
export const ianaZone = parsed('time zone', isIanaZone)
export const zone = parsed('time zone', (value) => parseZone(value) !== undefined)

/** A snapshot id: 63 bits, so digits in text; a number that keeps them is accepted too. */
export const digits: Kind<string> = {
  read: (value, at) => {
    const id = Number.isSafeInteger(value) ? String(value) : value
    if (typeof id !== 'string') return refuseType(at, 'string', value)
    return /^[0-9]{1,19}$/.test(id) ? id : refuse(at, 'V10', `"${id}" is not a snapshot id`)
  },
  print: same,
  schema: z.union([z.string(), z.int()]),
}

/** Normalized to five fields. */
export const cron: Kind<string> = {
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    const schedule = parseCron(value)
    if (schedule.ok) return schedule.text
    return refuse(
      at,
      'V10',
      schedule.hasSeconds ? 'seconds are not supported: the finest step is one minute' : `"${value}" is not a cron text`,
    )
  },
  print: same,
  schema: z.string(),
}

export const listOf = <T>(kind: Kind<T>, options: { readonly blank?: boolean } = {}): Kind<readonly T[]> => ({
  read: (value, at) => {
    if (!Array.isArray(value)) return refuseType(at, 'list', value)
    const items = value.map((entry: unknown, i) => readEntry(kind, entry, item(at, i), options.blank))
    return items.includes(undefined) ? undefined : (items as T[])
  },
  print: (values) => values.map((entry) => kind.print(entry)),
  schema: z.array(kind.schema),
  isList: true,
})

/** In a list or map an empty entry is an error unless empty text is a value; it never means an absent entry. */
function readEntry<T>(kind: Kind<T>, entry: unknown, at: SpecLocation, takesBlank = false): T | undefined {
  const isBlank = entry === undefined || entry === null || (!takesBlank && typeof entry === 'string' && entry.trim() === '')
  return isBlank ? refuse(at, 'V1', 'is required') : kind.read(entry, at)
}

export const mapOf = <T>(kind: Kind<T>, options: { readonly blank?: boolean } = {}): Kind<{ readonly [key: string]: T }> => ({
  read: (value, at) => {
    if (!isMap(value)) return refuseType(at, 'map', value)
    const entries = Object.entries(value).map(([key, entry]) => {
      return [key, readEntry(kind, entry, child(at, key), options.blank)] as const
    })
    return entries.some(([, entry]) => entry === undefined) ? undefined : Object.fromEntries(entries as [string, T][])
  },
  print: (values) => Object.fromEntries(Object.entries(values).map(([key, entry]) => [key, kind.print(entry)])),
  schema: z.record(z.string(), kind.schema),
})

/** Core types of Kubernetes, passed on unchanged. */
export const opaqueMap: Kind<Readonly<Record<string, unknown>>> = {
  read: (value, at) => (isMap(value) ? value : refuseType(at, 'map', value)),
  print: same,
  schema: z.record(z.string(), z.unknown()),
}

export const opaqueList: Kind<readonly unknown[]> = {
  read: (value, at) => (Array.isArray(value) ? (value as unknown[]) : refuseType(at, 'list', value)),
  print: same,
  schema: z.array(z.unknown()),
}
