// Turns log fields into plain data that is safe to write: secrets masked by name and by form, errors with their causes as
// records, and every size bounded, so that no caller can log a manifest by accident or fill a disk with one line.
import { cleanText, textCharsMax } from './redact-text.ts'
import { mask, Secret } from './secret.ts'

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
export type Clean = string | number | boolean | null | Clean[] | { [key: string]: Clean }

const fieldsMax = 64
const entriesMax = 50
const depthMax = 6
const framesMax = 12

/** Each field has 4 KiB of text to spend; what is beyond that is cut, and says so. */
export function cleanFields(fields: Fields): Record<string, Clean> {
  const entries = Object.entries(fields).slice(0, fieldsMax)
  return recordOf(entries, (key, value) =>
    isSensitive(key) ? masked(key, value) : cleanValue(value, { charsLeft: textCharsMax }, depthMax),
  )
}

type Budget = { charsLeft: number }

function recordOf(entries: readonly [string, unknown][], clean: (key: string, value: unknown) => Clean | undefined): Record<string, Clean> {
  const record: Record<string, Clean> = Object.create(null) as Record<string, Clean>
  for (const [key, value] of entries) {
    const cleaned = clean(key, value)
    if (cleaned !== undefined) record[cleanText(key, 128)] = cleaned
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

/** `token: false` and `secrets: 3` say that there is one, or how many. */
function masked(key: string, value: unknown): Clean | undefined {
  if (value === undefined || value === null || typeof value === 'boolean') return value
  return typeof value === 'number' && /s$/i.test(key) ? value : mask
}

function cleanValue(value: unknown, budget: Budget, depth: number): Clean | undefined {
  if (value === null || value === undefined || typeof value === 'boolean') return value
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value)
  if (typeof value === 'string' || typeof value === 'bigint') return spend(budget, String(value))
  if (value instanceof Secret) return mask
  if (typeof value !== 'object') return `<${typeof value}>`
  return cleanObject(value, budget, depth)
}

/** Not part of the declared types, but a cast must not open a hole either: buffers, dates, URLs and maps are named or read. */
function cleanObject(value: object, budget: Budget, depth: number): Clean {
  if (value instanceof Error) return cleanError(value, budget, depth)
  if (ArrayBuffer.isView(value)) return `<${value.byteLength} bytes>`
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
  if (value instanceof URL) return spend(budget, value.href)
  if (depth === 0 || budget.charsLeft <= 0) return '…'
  if (Array.isArray(value)) return cleanList(value, budget, depth - 1)
  const entries = Object.entries(value)
  return recordOf(cutList(entries, ['…', entries.length - entriesMax]), (key, entry) => {
    budget.charsLeft -= key.length
    return isSensitive(key) ? masked(key, entry) : cleanValue(entry, budget, depth - 1)
  })
}

function cleanList(list: readonly unknown[], budget: Budget, depth: number): Clean[] {
  return cutList(list, `… ${list.length - entriesMax} more`).map((entry) => cleanValue(entry, budget, depth) ?? null)
}

function cutList<T>(list: readonly T[], more: T): readonly T[] {
  return list.length <= entriesMax ? list : [...list.slice(0, entriesMax), more]
}

/** Only what is known to be harmless: libraries hang requests, rows and bodies on their errors. */
function cleanError(error: Error, budget: Budget, depth: number): Clean {
  const record: Record<string, Clean> = { type: cleanText(error.name, 100), message: spend(budget, error.message) }
  const code: unknown = 'code' in error ? error.code : undefined
  if (typeof code === 'string' || typeof code === 'number') record['code'] = cleanText(String(code), 100)
  if (depth > 0 && error instanceof AggregateError) record['errors'] = cleanList(error.errors, budget, depth - 1)
  const cause = depth > 0 ? cleanValue(error.cause, budget, depth - 1) : undefined
  if (cause !== undefined && cause !== null) record['cause'] = cause
  if (depth === depthMax) record['stack'] = spend(budget, framesOf(error))
  return record
}

/** The stack without its first lines, which repeat the message. */
function framesOf(error: Error): string {
  const frames = (error.stack ?? '').split('\n').filter((line) => /^\s+at /.test(line))
  return frames
    .slice(0, framesMax)
    .map((line) => line.trim())
    .join('\n')
}

function spend(budget: Budget, text: string): string {
  if (text === '') return text
  if (budget.charsLeft <= 0) return '…'
  const cleaned = cleanText(text, Math.max(budget.charsLeft, 16))
  budget.charsLeft -= cleaned.length
  return cleaned
}
