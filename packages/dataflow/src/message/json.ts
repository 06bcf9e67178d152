// Converts payload bytes to JSON values and back. Numbers that a double would round use the lossless parser, which keeps their digits.
// Detects payloads that are not JSON or nested too deep.
import { Buffer, isUtf8 } from 'node:buffer'
import { type Json, rawNumber } from '@brokkr/contract/dataflow/language/json.ts'

/** Deeper payloads would overflow the stack of recursive functions. */
export const depthMax = 1000

/** Undefined if the bytes are not JSON or nested too deep. */
export function parsePayload(raw: Uint8Array): Json | undefined {
  if (isTooDeep(raw)) return undefined
  const text = Buffer.isBuffer(raw) ? raw.toString() : Buffer.from(raw.buffer, raw.byteOffset, raw.byteLength).toString()
  try {
    if (unusual.test(text)) return isUtf8(raw) ? parseLossless(text) : undefined
    return needsDigits(raw) ? parseLossless(text) : (JSON.parse(text) as Json)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** A level needs two bytes, so only larger payloads are checked. */
export const isTooDeep = (raw: Uint8Array): boolean => raw.length > 2 * depthMax && isDeeper(raw, depthMax)

/** Invalid UTF-8 decodes to the replacement character. 1e400 would become infinite and print as null, 1e-400 would become 0. */
const unusual = /\ufffd|[0-9][eE][+-]?[0-9]{3}/

/** A run of 16 digits or points contains one of every 16 bytes, so no other bytes are checked. */
function needsDigits(raw: Uint8Array): boolean {
  for (let i = 15; i < raw.length; i += 16) {
    if (!isDigitOrPoint(raw[i]!)) continue
    let start = i
    let end = i + 1
    while (start > 0 && isDigitOrPoint(raw[start - 1]!)) start -= 1
    while (end < raw.length && isDigitOrPoint(raw[end]!)) end += 1
    if (end - start >= 16 && beginsNumber(raw, start)) return true
  }
  return false
}

const isDigitOrPoint = (byte: number): boolean => byte >= 46 && byte <= 57 && byte !== 47

/** A number follows the start, a blank, a colon, a comma, a bracket or its sign; digits inside a string mostly follow something else. */
function beginsNumber(raw: Uint8Array, start: number): boolean {
  const before = raw[start - 1]
  return before === undefined || before === 58 || before === 44 || before === 91 || before <= 32 || before === 45
}

interface SourceText {
  readonly source?: string
}
type Reviver = (this: unknown, key: string, value: unknown, context: SourceText) => unknown

/** Ten times slower than JSON.parse, and rarely needed. */
export function parseLossless(text: string): Json {
  const revive: Reviver = (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? exactNumber(value, source) : value
  return JSON.parse(text, revive as (this: unknown, key: string, value: unknown) => unknown) as Json
}

/** A double if it prints as written or is short enough to be exact, else the digits. */
function exactNumber(value: number, source: string): Json {
  if (String(value) === source) return value
  return source.length < 16 && Number.isFinite(value) && (value !== 0 || !/[1-9].*[eE]/.test(source)) ? value : rawNumber(source)
}

function isDeeper(raw: Uint8Array, limit: number): boolean {
  let depth = 0
  for (let i = 0; i < raw.length; i += 1) {
    const byte = raw[i]!
    if (byte === 34) i = endOfText(raw, i)
    else if (byte === 91 || byte === 123) depth += 1
    else if (byte === 93 || byte === 125) depth -= 1
    if (depth > limit) return true
  }
  return false
}

/** Index of the closing quote; after the end if there is none. */
function endOfText(raw: Uint8Array, start: number): number {
  for (let end = raw.indexOf(34, start + 1); end >= 0; end = raw.indexOf(34, end + 1)) if (!isEscaped(raw, end)) return end
  return raw.length
}

function isEscaped(raw: Uint8Array, at: number): boolean {
  let slashes = 0
  while (raw[at - 1 - slashes] === 92) slashes += 1
  return slashes % 2 === 1
}
