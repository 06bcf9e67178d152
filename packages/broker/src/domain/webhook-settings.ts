// What the settings of a webhook may be, whether it is made or changed. Null and what is not sent is left to the caller.
import { ApiError } from '@brokkr/contract/error.ts'
import { isEventPattern } from '@brokkr/contract/webhook-event.ts'
import { requireName } from './names.ts'

export type Sent<T> = T | null | undefined
export interface SentSettings {
  readonly name: Sent<string>
  readonly url: Sent<string>
  readonly auth_header: Sent<string>
  readonly event_types: Sent<readonly string[]>
  readonly filters: Sent<Readonly<Record<string, unknown>>>
  readonly target_labels: Sent<readonly string[]>
  readonly max_retries: Sent<number>
  readonly timeout_seconds: Sent<number>
  readonly validate: unknown
}
export interface CheckedSettings {
  readonly name: string | null
  readonly url: string | null
  readonly authHeader: string | null
  readonly eventTypes: string[] | null
  readonly filters: { readonly agent_id?: string; readonly stack_id?: string } | null
  readonly targetLabels: string[] | null
  readonly maxRetries: number | null
  readonly timeoutSeconds: number | null
}

/** Throws the error the wire has for what is wrong. Whether an address may be reached is not decided here. */
export function checkSettings(sent: SentSettings): CheckedSettings {
  refuseRemoved(sent)
  return {
    name: given(sent.name, (name) => requireName(name, 'name', 'invalid_webhook')),
    url: given(sent.url, requireUrl),
    authHeader: given(sent.auth_header, requireHeader),
    eventTypes: given(sent.event_types, requirePatterns),
    filters: given(sent.filters, requireFilters),
    targetLabels: given(sent.target_labels, requireLabels),
    maxRetries: given(sent.max_retries, (value) => requireRange(value, 'max_retries', [0, 10])),
    timeoutSeconds: given(sent.timeout_seconds, (value) => requireRange(value, 'timeout_seconds', [1, 300])),
  }
}

const given = <T, R>(value: Sent<T>, check: (value: T) => R): R | null => (value === null || value === undefined ? null : check(value))

/** Fields of an older release, which never did what they said. */
function refuseRemoved({ validate, filters }: SentSettings): void {
  if (validate !== null && validate !== undefined)
    throw unsupported('validate', 'POST /webhooks/{id}/test', 'nothing is sent when a webhook is made: make it, then test it')
  if (filters?.['labels'] !== null && filters?.['labels'] !== undefined)
    throw unsupported('filters.labels', 'target_labels', 'filter by agent_id or stack_id, or choose by target_labels which agents deliver')
}

const unsupported = (field: string, use_instead: string, why: string): ApiError =>
  new ApiError('unsupported_field', `${field} is not accepted: ${why}`, { details: { field, use_instead } })

const refused = (message: string): ApiError => new ApiError('invalid_webhook', message, { status: 422 })

const urlCharsMax = 2048
const headerBytesMax = 4096
const patternsMax = 50
const labelsMax = 64

function requireUrl(text: string): string {
  if (text.trim() === '') throw new ApiError('url_required', 'a webhook needs the url of its receiver')
  if (!/^https?:\/\//i.test(text)) throw new ApiError('invalid_url_scheme', 'the url begins with https:// or http://')
  if (text.length > urlCharsMax) throw refused(`the url has at most ${urlCharsMax} characters`)
  const url = URL.parse(text)
  if (url === null || url.hostname === '') throw refused('the url is none: write it as https://host/path')
  if (url.username !== '' || url.password !== '') throw refused('the url holds a user name or password: send credentials by auth_header')
  if (text.includes('#')) throw refused('the url has a fragment, which no receiver would see')
  return text
}

function requireHeader(text: string): string {
  if (text === '' || !/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) throw refused('auth_header is one line of Latin-1 text, and not empty')
  if (Buffer.byteLength(text) > headerBytesMax) throw refused(`auth_header has at most ${headerBytesMax} bytes`)
  return text
}

function requirePatterns(patterns: readonly string[]): string[] {
  if (patterns.length === 0) throw new ApiError('invalid_webhook', 'event_types names at least one event')
  if (patterns.length > patternsMax) throw refused(`event_types names at most ${patternsMax} events`)
  if (!patterns.every(isEventPattern)) throw refused('an event type is *, a name such as stack.created, or all below a word: deployment.*')
  return [...patterns]
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Only what is known is kept: a filter that nobody evaluates would let through what it should not. */
function requireFilters(filters: Readonly<Record<string, unknown>>): NonNullable<CheckedSettings['filters']> {
  const kept = (['agent_id', 'stack_id'] as const).flatMap((field) => {
    const value = filters[field]
    if (value === null || value === undefined) return []
    if (typeof value !== 'string' || !uuid.test(value)) throw new ApiError('invalid_request_body', `filters.${field} is no UUID`)
    return [[field, value.toLowerCase()]]
  })
  return Object.fromEntries(kept) as NonNullable<CheckedSettings['filters']>
}

function requireLabels(labels: readonly string[]): string[] {
  if (labels.length > labelsMax) throw refused(`target_labels holds at most ${labelsMax} labels`)
  if (labels.some((label) => label === '' || label.length > 64 || /\s/u.test(label)))
    throw refused('a label has 1 to 64 characters and no whitespace')
  return [...new Set(labels)]
}

function requireRange(value: number, field: string, [least, most]: readonly [number, number]): number {
  if (value < least || value > most) throw refused(`${field} is ${least} to ${most}`)
  return value
}
