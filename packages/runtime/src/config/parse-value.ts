// Parses the value that a source gave for a setting. Text from the environment, a flag or a quoted file entry can mean a number, a
// boolean, a list or JSON: the first interpretation that the schema accepts wins.
import type { z } from 'zod'
import { Secret } from '../secret.ts'
import { formatValue } from './config-error.ts'
import type { Setting } from './settings.ts'

export type ParsedValue = { ok: true; value: unknown } | { ok: false; problem: string }

export function parseValue(setting: Setting<unknown>, raw: unknown): ParsedValue {
  if (setting.secret !== 'no') return parseSecret(setting, raw)
  const isUnset = raw === '' && setting.fallback?.value === null
  const meanings = isUnset ? [null] : listInterpretations(raw)
  const results = meanings.map((meaning) => setting.schema.safeParse(meaning))
  const accepted = results.find((result) => result.success)
  if (accepted) return { ok: true, value: accepted.data }
  return { ok: false, problem: `${formatValue(raw)} is not right: ${describeIssue(results)}` }
}

function listInterpretations(raw: unknown): unknown[] {
  if (typeof raw !== 'string') return [raw]
  const text = raw.trim()
  const parts = text === '' ? [] : text.split(',').map((part) => part.trim())
  return [raw, ...asNumber(text), ...asBoolean(text), ...asJson(text), parts, ...allNumbers(parts)]
}

function asNumber(text: string): number[] {
  const value = /^[-+]?(\d|\.\d)/.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(value) ? [value] : []
}

function asBoolean(text: string): boolean[] {
  if (/^(true|1)$/i.test(text)) return [true]
  return /^(false|0)$/i.test(text) ? [false] : []
}

function asJson(text: string): unknown[] {
  if (!/^[[{]/.test(text)) return []
  try {
    return [JSON.parse(text)]
  } catch {
    return []
  }
}

function allNumbers(parts: readonly string[]): number[][] {
  const numbers = parts.flatMap(asNumber)
  return parts.length > 0 && numbers.length === parts.length ? [numbers] : []
}

/** Prefers "too big" of the interpretation with the right type to "expected number" of the text itself. */
function describeIssue(results: readonly z.ZodSafeParseResult<unknown>[]): string {
  const issues = results.flatMap((result) => result.error?.issues.slice(0, 1) ?? [])
  const telling = issues.find((issue) => issue.code !== 'invalid_type' || issue.path.length > 0) ?? issues[0]
  return [telling?.path.join('.'), telling?.message].filter(Boolean).join(': ')
}

function parseSecret(setting: Setting<unknown>, raw: unknown): ParsedValue {
  const isUnset = raw === '' || raw === null
  if (isUnset && setting.fallback) return { ok: true, value: setting.fallback.value }
  if (isUnset) return { ok: false, problem: 'is empty' }
  const texts = setting.secret === 'list' ? toSecretTexts(raw) : raw
  const result = setting.schema.safeParse(texts)
  if (!result.success) return { ok: false, problem: hideSecret(result.error.issues[0]?.message ?? '', [texts].flat()) }
  return { ok: true, value: Array.isArray(texts) ? texts.map((text) => new Secret(String(text))) : new Secret(String(texts)) }
}

function toSecretTexts(raw: unknown): unknown {
  if (typeof raw !== 'string') return raw
  const [json] = asJson(raw.trim())
  return json ?? raw.split(/[,\n]/).flatMap((part) => (part.trim() === '' ? [] : [part.trim()]))
}

/** Hides a schema message that quotes the secret. */
function hideSecret(message: string, secrets: readonly unknown[]): string {
  const isQuoting = secrets.some((text) => typeof text !== 'string' || message.includes(text))
  return isQuoting
    ? 'is not a text of the right form (the value is secret and not shown)'
    : `${message} (the value is secret and not shown)`
}
