// Validation of webhook settings for create and update. Null and omitted fields become null.
import { ApiError } from '@brokkr/contract/errors.ts'
import { findUnknownPatterns, isEventPattern } from '@brokkr/contract/webhooks/event-types.ts'
import { type Webhook, WebhookFilters } from '@brokkr/contract/webhooks/subscription.ts'
import { requireName } from '../../../rules/names.ts'

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

/** Throws the API error of the first invalid field. Does not check whether an address is allowed. */
export function checkSettings(sent: SentSettings): CheckedSettings {
  refuseRemovedFields(sent)
  return {
    name: checkOptional(sent.name, (name) => requireName(name, 'name', 'invalid_webhook')),
    url: checkOptional(sent.url, requireUrl),
    authHeader: checkOptional(sent.auth_header, requireHeader),
    eventTypes: checkOptional(sent.event_types, requirePatterns),
    filters: checkOptional(sent.filters, requireFilters),
    targetLabels: checkOptional(sent.target_labels, requireLabels),
    maxRetries: checkOptional(sent.max_retries, (value) => requireRange(value, 'max_retries', [0, 10])),
    timeoutSeconds: checkOptional(sent.timeout_seconds, (value) => requireRange(value, 'timeout_seconds', [1, 300])),
  }
}

const checkOptional = <T, R>(value: Sent<T>, check: (value: T) => R): R | null =>
  value === null || value === undefined ? null : check(value)

/** Fields of the first version that never had an effect. */
function refuseRemovedFields({ validate, filters }: SentSettings): void {
  if (validate !== null && validate !== undefined)
    throw unsupported('validate', 'POST /webhooks/{id}/test', 'nothing is sent when a webhook is made: make it, then test it')
  if (filters?.['labels'] !== null && filters?.['labels'] !== undefined)
    throw unsupported('filters.labels', 'target_labels', 'filter by agent_id or stack_id, or choose by target_labels which agents deliver')
}

const unsupported = (field: string, use_instead: string, why: string): ApiError =>
  new ApiError('unsupported_field', `${field} is not accepted: ${why}`, { details: { field, use_instead } })

const invalidWebhook = (message: string): ApiError => new ApiError('invalid_webhook', message, { status: 422 })

const urlCharsMax = 2048
const headerBytesMax = 4096
const patternsMax = 50
const labelsMax = 64

function requireUrl(text: string): string {
  if (text.trim() === '') throw new ApiError('url_required', 'a webhook needs the url of its receiver')
  if (!/^https?:\/\//i.test(text)) throw new ApiError('invalid_url_scheme', 'the url begins with https:// or http://')
  if (text.length > urlCharsMax) throw invalidWebhook(`the url has at most ${urlCharsMax} characters`)
  const url = URL.parse(text)
  if (url === null || url.hostname === '') throw invalidWebhook('the url is none: write it as https://host/path')
  if (url.username !== '' || url.password !== '')
    throw invalidWebhook('the url holds a user name or password: send credentials by auth_header')
  if (text.includes('#')) throw invalidWebhook('the url has a fragment, which no receiver would see')
  return text
}

function requireHeader(text: string): string {
  if (text === '' || !/^[\t\x20-\x7e\x80-\xff]*$/.test(text)) throw invalidWebhook('auth_header is one line of Latin-1 text, and not empty')
  if (Buffer.byteLength(text) > headerBytesMax) throw invalidWebhook(`auth_header has at most ${headerBytesMax} bytes`)
  return text
}

function requirePatterns(patterns: readonly string[]): string[] {
  if (patterns.length === 0) throw new ApiError('invalid_webhook', 'event_types names at least one event')
  if (patterns.length > patternsMax) throw invalidWebhook(`event_types names at most ${patternsMax} events`)
  if (!patterns.every(isEventPattern))
    throw invalidWebhook('an event type is *, a name such as stack.created, or all below a word: deployment.*')
  return [...patterns]
}

const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i

/** Drops unknown filters, because an ignored filter would match too many events. */
function requireFilters(filters: Readonly<Record<string, unknown>>): NonNullable<CheckedSettings['filters']> {
  const entries = (['agent_id', 'stack_id'] as const).flatMap((field) => {
    const value = filters[field]
    if (value === null || value === undefined) return []
    if (typeof value !== 'string' || !uuid.test(value)) throw new ApiError('invalid_request_body', `filters.${field} is no UUID`)
    return [[field, value.toLowerCase()]]
  })
  return Object.fromEntries(entries) as NonNullable<CheckedSettings['filters']>
}

function requireLabels(labels: readonly string[]): string[] {
  if (labels.length > labelsMax) throw invalidWebhook(`target_labels holds at most ${labelsMax} labels`)
  if (labels.some((label) => label === '' || label.length > 64 || /\s/u.test(label)))
    throw invalidWebhook('a label has 1 to 64 characters and no whitespace')
  return [...new Set(labels)]
}

function requireRange(value: number, field: string, [min, max]: readonly [number, number]): number {
  if (value < min || value > max) throw invalidWebhook(`${field} is ${min} to ${max}`)
  return value
}

// A subscription as the API shows it: whether it has an address and a credential, never their values.

export interface SubscriptionFacts {
  readonly id: string
  readonly name: string
  readonly has_auth_header: boolean
  readonly event_types: string[]
  readonly filters: unknown
  readonly target_labels: string[] | null
  readonly enabled: boolean
  readonly max_retries: number
  readonly timeout_seconds: number
  readonly created_by: string | null
  readonly created_at: string
  readonly updated_at: string
}

export function toWebhook({ filters, ...row }: SubscriptionFacts): Webhook {
  const read = WebhookFilters.safeParse(filters)
  return { ...row, has_url: true, filters: read.success ? read.data : null, unknown_event_types: findUnknownPatterns(row.event_types) }
}
