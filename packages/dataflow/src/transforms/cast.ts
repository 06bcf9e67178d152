// cast: converts values to another type. A failed conversion is an error that names path and type, never the value.

import type { CastType } from '@brokkr/contract/dataflow/fields/kinds-transform.ts'
import { isNumericText, numberText } from '@brokkr/contract/dataflow/language/decimal.ts'
import { isRawNumber, type Json, rawNumber } from '@brokkr/contract/dataflow/language/json.ts'
import { getPayload, withPayload } from '../message/message.ts'
import { compileEdit } from './paths/edit.ts'
import { type Transform, TransformError } from './transform.ts'

export const cast: Transform<'cast'> = {
  type: 'cast',
  build({ spec }) {
    const editors = spec.map(({ path, to }) => compileEdit(path.segments, (value) => convert(value, to, path.text)))
    return (message) => {
      const edit = { isOwned: message.isOwned, hits: 0 }
      const payload = editors.reduce<Json>((root, editor) => editor(root, edit), getPayload(message)!)
      return [edit.hits === 0 ? message : withPayload(message, payload, message.isOwned)]
    }
  },
}

function convert(value: Json, to: CastType, path: string): Json {
  const converted = to === 'null' ? null : converters[to](value)
  if (converted !== undefined) return converted
  throw new TransformError('cast', path, `${typeName(value)} does not convert to ${to}`)
}

const converters = {
  string: toText,
  int64: toInt64,
  float64: toFloat64,
  bool: toBool,
} satisfies Record<Exclude<CastType, 'null'>, (value: Json) => Json | undefined>

function toText(value: Json): Json | undefined {
  if (typeof value === 'string') return value
  if (typeof value === 'boolean') return String(value)
  return typeof value === 'number' || isRawNumber(value) ? numberText(value) : undefined
}

const integerText = /^[+-]?[0-9]{1,40}$/

/** Integers and integer text within 64 bits; digits that a double would lose are kept. */
function toInt64(value: Json): Json | undefined {
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value
  const text = typeof value === 'number' || isRawNumber(value) ? numberText(value) : value
  if (typeof text !== 'string' || !integerText.test(text)) return undefined
  const integer = BigInt(text.startsWith('+') ? text.slice(1) : text)
  if (BigInt.asIntN(64, integer) !== integer) return undefined
  const number = Number(integer)
  return Number.isSafeInteger(number) ? number : rawNumber(integer.toString())
}

/** A number keeps its written form. */
function toFloat64(value: Json): Json | undefined {
  if (typeof value === 'number' || isRawNumber(value)) return value
  if (typeof value !== 'string' || !isNumericText(value)) return undefined
  const number = Number(value)
  return Number.isFinite(number) ? number : undefined
}

const words = new Map<Json, boolean>([
  [true, true],
  [false, false],
  [1, true],
  [0, false],
  ['true', true],
  ['false', false],
  ['t', true],
  ['f', false],
  ['1', true],
  ['0', false],
])

function toBool(value: Json): Json | undefined {
  return words.get(value)
}

function typeName(value: Json): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return isRawNumber(value) ? 'number' : typeof value === 'boolean' ? 'bool' : typeof value
}
