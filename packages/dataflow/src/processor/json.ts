// Payload bytes to values and back. Numbers survive: those that a double would round go through the lossless reader, which keeps
// their digits. What is no JSON, or is nested so deep that only an attack can be meant, is told apart here and nowhere else.
import { Buffer, isUtf8 } from 'node:buffer'
import { type Json, rawNumber } from '@brokkr/contract/dataflow/json.ts'

/** Deeper payloads would overflow the stack of whoever walks or prints them. */
export const depthMax = 1000

/** Undefined when the bytes are no JSON, or too deep. */
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

/** A level costs two bytes at least, so only larger payloads are looked through. */
export const isTooDeep = (raw: Uint8Array): boolean => raw.length > 2 * depthMax && isDeeper(raw, depthMax)

/** Bytes that are no UTF-8 decode to the replacement character. 1e400 would become infinite and print as null, 1e-400 would become 0. */
const unusual = /\ufffd|[0-9][eE][+-]?[0-9]{3}/

/** A run of 16 digits or points touches a byte of every 16: no other bytes need to be looked at. */
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

/** Before a number stands nothing, a blank, a colon, a comma, a bracket or its sign; before digits in a text mostly something else. */
function beginsNumber(raw: Uint8Array, start: number): boolean {
  const before = raw[start - 1]
  return before === undefined || before === 58 || before === 44 || before === 91 || before <= 32 || before === 45
}

interface SourceText {
  readonly source?: string
}
type Reviver = (this: unknown, key: string, value: unknown, context: SourceText) => unknown

/** Ten times slower than JSON.parse, and rare. */
export function parseLossless(text: string): Json {
  const revive: Reviver = (_key, value, { source }) =>
    typeof value === 'number' && source !== undefined ? exactNumber(value, source) : value
  return JSON.parse(text, revive as (this: unknown, key: string, value: unknown) => unknown) as Json
}

/** The double where it prints as it was written or is short enough to be exact, else the digits. */
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

/** The closing quote; behind the end when there is none. */
function endOfText(raw: Uint8Array, start: number): number {
  for (let end = raw.indexOf(34, start + 1); end >= 0; end = raw.indexOf(34, end + 1)) if (!isEscaped(raw, end)) return end
  return raw.length
}

function isEscaped(raw: Uint8Array, at: number): boolean {
  let slashes = 0
  while (raw[at - 1 - slashes] === 92) slashes += 1
  return slashes % 2 === 1
}
