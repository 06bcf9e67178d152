// One pass over a JSON body before it is parsed: limits depth and number of values, rejects prototype names, and detects duplicate
// fields. Linear; stores only the keys of open objects. Invalid JSON passes here and fails in the parser.
import { ApiError } from '@brokkr/contract/errors.ts'

export interface JsonLimits {
  readonly depthMax: number
  readonly nodesMax: number
}

/** Throws `invalid_json` at the first exceeded limit. */
export function scanJson(text: string, limits: JsonLimits): { readonly hasTwice: boolean } {
  const state: State = { open: [], nodes: 0, hasTwice: false, limits }
  for (let at = 0; at < text.length; ) at = scanToken(state, text, at)
  return { hasTwice: state.hasTwice }
}

/** An open object or array; arrays have no keys. */
interface Frame {
  readonly keys: Set<string> | null
  wantsKey: boolean
}
interface State {
  readonly open: Frame[]
  readonly limits: JsonLimits
  nodes: number
  hasTwice: boolean
}

/** Reads the token at `at`; returns the position of the next one. */
function scanToken(state: State, text: string, at: number): number {
  const code = text.charCodeAt(at)
  const frame = state.open.at(-1)
  if (code === quote) return scanString(state, frame, { text, at })
  if (code === openBrace || code === openBracket) openFrame(state, code === openBrace)
  else if (code === closeBrace || code === closeBracket) state.open.pop()
  else if (code === comma && frame !== undefined) frame.wantsKey = frame.keys !== null
  else if (code !== comma && code !== colon && !isSpace(code)) {
    countNode(state)
    return endOfWord(text, at)
  }
  return at + 1
}

function scanString(state: State, frame: Frame | undefined, { text, at }: { text: string; at: number }): number {
  const end = endOfString(text, at)
  if (frame?.keys && frame.wantsKey) {
    const key = keyText(text.slice(at, end))
    state.hasTwice ||= frame.keys.has(key)
    frame.keys.add(key)
    frame.wantsKey = false
  } else countNode(state)
  return end
}

function openFrame(state: State, isObject: boolean): void {
  countNode(state)
  state.open.push({ keys: isObject ? new Set() : null, wantsKey: isObject })
  const { depthMax } = state.limits
  if (state.open.length > depthMax) throw invalidJson(`the body is nested deeper than ${depthMax}`, { limit: 'json_depth', max: depthMax })
}

function countNode(state: State): void {
  state.nodes += 1
  const { nodesMax } = state.limits
  if (state.nodes > nodesMax) throw invalidJson(`the body contains more than ${nodesMax} values`, { limit: 'json_nodes', max: nodesMax })
}

const prototypeKeys: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

/** Escapes are resolved first: `"__proto\\u005f_"` is the same key. */
function keyText(literal: string): string {
  const key = literal.includes('\\') ? unescaped(literal) : literal.slice(1, -1)
  if (prototypeKeys.has(key)) throw invalidJson('the body contains a forbidden field name: __proto__, constructor or prototype')
  return key
}

function unescaped(literal: string): string {
  try {
    return String(JSON.parse(literal))
  } catch {
    throw invalidJson('the body is not valid JSON')
  }
}

const [quote, backslash, comma, colon] = [34, 92, 44, 58]
const [openBrace, closeBrace, openBracket, closeBracket] = [123, 125, 91, 93]
const isSpace = (code: number): boolean => code === 32 || code === 10 || code === 13 || code === 9
const isBracket = (code: number): boolean => code === openBrace || code === closeBrace || code === openBracket || code === closeBracket

/** Position after the closing quote, or the end of the text. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === backslash) at += 1
    else if (code === quote) return at + 1
  }
  return text.length
}

/** A number or a literal; the parser reports anything else as a syntax error. */
function endOfWord(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (isSpace(code) || code === comma || code === colon || code === quote || isBracket(code)) return at
  }
  return text.length
}

function invalidJson(message: string, details?: Record<string, unknown>): ApiError {
  return new ApiError('invalid_json', message, details === undefined ? {} : { details })
}
