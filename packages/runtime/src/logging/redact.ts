// Converts log fields to plain data that is safe to write: masks secrets by name and form, records errors with causes, and limits
// sizes, so that no caller can log a manifest by accident or fill a disk.

import { mask, Secret } from '../secret.ts'
import { redactText, textCharsMax } from './redact-text.ts'

export type FieldValue =
  | string
  | number
  | bigint
  | boolean
  | null
  | undefined
  | Error
  | Secret
  | readonly FieldValue[]
  | { readonly [key: string]: FieldValue }
export type Fields = Readonly<Record<string, FieldValue>>
export type CleanFields = string | number | boolean | null | CleanFields[] | { [key: string]: CleanFields }

const fieldsMax = 64
const entriesMax = 50
const depthMax = 6
const framesMax = 12

/** Each field may have 4 KiB of text; longer text is cut with a mark. */
export function redactFields(fields: Fields): Record<string, CleanFields> {
  const entries = Object.entries(fields).slice(0, fieldsMax)
  return toRecord(entries, (key, value) =>
    isSensitive(key) ? maskedValue(key, value) : redactValue(value, { charsLeft: textCharsMax }, depthMax),
  )
}

type Budget = { charsLeft: number }

function toRecord(
  entries: readonly [string, unknown][],
  clean: (key: string, value: unknown) => CleanFields | undefined,
): Record<string, CleanFields> {
  const record: Record<string, CleanFields> = Object.create(null) as Record<string, CleanFields>
  for (const [key, value] of entries) {
    const cleaned = clean(key, value)
    if (cleaned !== undefined) record[redactText(key, 128)] = cleaned
  }
  return record
}

/** Whole names, and endings of longer names: `db_password`, `x-auth-token`. Compared without case, dashes and underscores. */
const sensitiveNames = new Set(
  'body requestbody responsebody payload manifest manifests yaml yamlcontent rendered parameters stringdata kubeconfig webhookurl xgeneratorkey xsignature headers databaseurl'.split(
    ' ',
  ),
)
const sensitiveEnding =
  /(authorization|cookies?|passw(or)?d|passphrase|secrets?|tokens?|apikey|accesskey|privatekey|encryptionkey|credentials?|pak)$/

function isSensitive(key: string): boolean {
  const name = key.replace(/[-_.\s]/g, '').toLowerCase()
  return sensitiveNames.has(name) || sensitiveEnding.test(name)
}

/** Booleans and numbers such as `token: false` and `secrets: 3` reveal no secret. */
function maskedValue(key: string, value: unknown): CleanFields | undefined {
  if (value === undefined || value === null || typeof value === 'boolean') return value
  return typeof value === 'number' && /s$/i.test(key) ? value : mask
}

function redactValue(value: unknown, budget: Budget, depth: number): CleanFields | undefined {
  if (value === null || value === undefined || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (typeof value === 'string' || typeof value === 'bigint') return spend(budget, String(value))
  if (value instanceof Secret) return mask
  if (typeof value !== 'object') return `<${typeof value}>`
  return redactObject(value, budget, depth)
}

/** Not part of the declared types, but a cast must not open a hole either: buffers, dates, URLs and maps are named or read. */
function redactObject(value: object, budget: Budget, depth: number): CleanFields {
  if (value instanceof Error) return redactError(value, budget, depth)
  if (ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
  if (value instanceof URL) return spend(budget, value.href)
  if (depth === 0 || budget.charsLeft <= 0) return '…'
  if (Array.isArray(value)) return redactList(value, budget, depth - 1)
  const entries = Object.entries(value)
  return toRecord(cutList(entries, ['…', entries.length - entriesMax]), (key, entry) => {
    budget.charsLeft -= key.length
    return isSensitive(key) ? maskedValue(key, entry) : redactValue(entry, budget, depth - 1)
  })
}

function redactList(list: readonly unknown[], budget: Budget, depth: number): CleanFields[] {
  return cutList(list, `… ${list.length - entriesMax} more`).map((entry) => redactValue(entry, budget, depth) ?? null)
}

function cutList<T>(list: readonly T[], more: T): readonly T[] {
  return list.length <= entriesMax ? list : [...list.slice(0, entriesMax), more]
}

/** Only harmless properties: libraries attach requests, rows and bodies to errors. */
function redactError(error: Error, budget: Budget, depth: number): CleanFields {
  const record: Record<string, CleanFields> = { type: redactText(error.name, 100), message: spend(budget, error.message) }
  const code: unknown = 'code' in error ? error.code : undefined
  if (typeof code === 'string' || typeof code === 'number') record['code'] = redactText(String(code), 100)
  if (depth > 0 && error instanceof AggregateError) record['errors'] = redactList(error.errors, budget, depth - 1)
  const cause = depth > 0 ? redactValue(error.cause, budget, depth - 1) : undefined
  if (cause !== undefined && cause !== null) record['cause'] = cause
  if (depth === depthMax) record['stack'] = spend(budget, listFrames(error))
  return record
}

/** The stack without its first lines, which repeat the message. */
function listFrames(error: Error): string {
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return frames
    .slice(0, framesMax)
    .map((line) => line.trim())
    .join('\n')
}

function spend(budget: Budget, text: string): string {
  if (text === '') return text
  if (budget.charsLeft <= 0) return '…'
  const cleaned = redactText(text, Math.max(budget.charsLeft, 16))
  budget.charsLeft -= cleaned.length
  return cleaned
}
