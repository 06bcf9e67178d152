// Converts integers between JSON and Avro without rounding. Pure.
import { isRawNumber, type Json, rawNumber } from '@brokkr/contract/dataflow/language/json.ts'

/** A value that does not fit its schema: path and type, never the value. */
export class AvroMismatch extends Error {
  constructor(path: string, type: string) {
    super(`${path} does not fit ${type}`)
  }
}

/** A double if it is exact, else the digits. */
export function integerJson(value: bigint): Json {
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : rawNumber(value.toString())
}

export function toBigint(json: Json, bits: bigint, path: string, type: string): bigint {
  const value = toInteger(json)
  if (value === undefined || value < -(1n << (bits - 1n)) || value >= 1n << (bits - 1n)) throw new AvroMismatch(path, type)
  return value
}

function toInteger(json: Json): bigint | undefined {
  if (typeof json === 'number') return Number.isInteger(json) ? BigInt(json) : undefined
  if (!isRawNumber(json)) return undefined
  return /^-?[0-9]+$/.test(json.rawJSON) ? BigInt(json.rawJSON) : undefined
}
