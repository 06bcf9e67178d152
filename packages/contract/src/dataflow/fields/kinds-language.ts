// Kinds of fields with a syntax of their own: identifiers, paths, conditions, layouts, pairs.
import { z } from 'zod'
import { type Condition, parseCondition } from '../language/condition.ts'
import { compileLayout, layoutNames } from '../language/layout.ts'
import { type Path, parsePath } from '../language/path.ts'
import { type PathUse, pathFault } from '../language/path-use.ts'
import { type Kind, refuse, refuseType, type SpecLocation } from './field.ts'

const identifierPattern = /^[A-Za-z_][A-Za-z0-9_$]*$/
const identifierLengthMax = 128
const isIdentifier = (value: string): boolean => value.length <= identifierLengthMax && identifierPattern.test(value)

export const identifier: Kind<string> = textKind(isIdentifier)

/** `[identifier.]identifier` */
export const table: Kind<string> = textKind((value) => {
  const parts = value.split('.')
  return parts.length <= 2 && parts.every(isIdentifier)
})

function textKind(isValid: (value: string) => boolean): Kind<string> {
  return {
    read: (value, at) => {
      if (typeof value !== 'string') return refuseType(at, 'string', value)
      return isValid(value) ? value : refuse(at, 'V11', `"${value}" is not an identifier`)
    },
    print: (value) => value,
    schema: z.string(),
  }
}

/** Comma-separated identifiers. */
export const identifiers: Kind<readonly string[]> = {
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    const names = value.split(',').map((name) => name.trim())
    const wrong = names.find((name) => !isIdentifier(name))
    return wrong === undefined ? names : refuse(at, 'V11', `"${wrong}" is not an identifier`)
  },
  print: (names) => names.join(','),
  schema: z.string(),
}

export const path = (use: PathUse): Kind<Path> => ({
  read: (value, at) => (typeof value === 'string' ? readPath(value, use, at) : refuseType(at, 'string', value)),
  print: ({ text }) => text,
  schema: z.string(),
})

export function readPath(value: string, use: PathUse, at: SpecLocation): Path | undefined {
  const parsed = parsePath(value)
  if (!parsed.ok) return refuse(at, 'V12', `column ${parsed.column}: ${parsed.reason}`)
  const fault = pathFault(parsed.value, use)
  return fault === undefined ? parsed.value : refuse(at, fault.rule, fault.reason)
}

export const condition: Kind<Condition> = {
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    const parsed = parseCondition(value, at.report.patterns)
    return parsed.ok ? parsed.value : refuse(at, 'V13', `column ${parsed.column}: ${parsed.reason}`)
  },
  print: ({ text }) => text,
  schema: z.string(),
}

/** Times as JSON numbers; the value is the number of units per second. */
export const unixFormats = { Unix: 1, UnixMilli: 1e3, UnixMicro: 1e6, UnixNano: 1e9 } as const
export type UnixFormat = keyof typeof unixFormats

export type TimeFormat = { readonly unix: UnixFormat } | { readonly layout: string }

/** A known name in any case, else a Go layout. */
export const timeFormat: Kind<TimeFormat> = {
  read: (value, at) => {
    if (typeof value !== 'string') return refuseType(at, 'string', value)
    const unix = (Object.keys(unixFormats) as UnixFormat[]).find((name) => isSameName(name, value))
    if (unix !== undefined) return { unix }
    const name = Object.keys(layoutNames).find((candidate) => isSameName(candidate, value))
    const layout = name === undefined ? value : layoutNames[name]!
    if (compileLayout(layout) !== undefined) return { layout }
    return refuse(at, 'V17', `"${value}" is neither a known format name nor a layout`)
  },
  print: (format) => ('unix' in format ? format.unix : format.layout),
  schema: z.string(),
}

const isSameName = (name: string, value: string): boolean => name.toLowerCase() === value.trim().toLowerCase()

export interface Rename {
  readonly text: string
  readonly from: Path
  readonly to: Path
}

/** `old:new`, both single locations below the root. */
export const rename: Kind<Rename> = {
  read: (value, at) => {
    const halves = splitPair(value, 'old:new', at)
    if (halves === undefined) return undefined
    const from = readPath(halves[0], 'set', at)
    const to = readPath(halves[1], 'set', at)
    return from === undefined || to === undefined ? undefined : { text: value as string, from, to }
  },
  print: ({ text }) => text,
  schema: z.string(),
}

export interface HeaderMapping {
  readonly text: string
  readonly header: string
  readonly to: Path
}

/** `header:path`; a colon or backslash in the header's name is escaped. */
export const headerMapping: Kind<HeaderMapping> = {
  read: (value, at) => {
    const halves = splitPair(value, 'header:path', at)
    const to = halves === undefined ? undefined : readPath(halves[1], 'set', at)
    return halves === undefined || to === undefined
      ? undefined
      : { text: value as string, header: halves[0].replace(/\\([:\\])/g, '$1'), to }
  },
  print: ({ text }) => text,
  schema: z.string(),
}

/** Exactly one unescaped colon and two non-empty parts (V15). */
function splitPair(value: unknown, form: string, at: SpecLocation): readonly [string, string] | undefined {
  if (typeof value !== 'string') return refuseType(at, 'string', value)
  const colons = [...value.matchAll(/\\.|:/gs)].filter(([match]) => match === ':')
  const colon = colons[0]?.index ?? -1
  const [left, right] = [value.slice(0, colon), value.slice(colon + 1)]
  if (colons.length === 1 && left.trim() !== '' && right.trim() !== '') return [left, right]
  return refuse(at, 'V15', `"${value}" must have the form ${form}`)
}
