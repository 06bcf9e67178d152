// The values of a flow that nobody may read in a log, a letter, a metric or an answer, and the filter that takes them out of a text.
import type { Flow } from '@brokkr/contract/dataflow/types.ts'
import { mask } from '@brokkr/runtime/secret.ts'

/** Fields whose value is a secret wherever it came from. */
const secretFields: ReadonlySet<string> = new Set([
  'connectionString',
  'password',
  'key',
  'bearerToken',
  'token',
  'clientSecret',
  'oauth2ClientSecret',
  'accessKey',
  'secretAccessKey',
])
/** Shorter ones would take ordinary words apart. */
const charsMin = 3

export type SecretPlaces = readonly (readonly (string | number)[])[]

export function createRedact(flow: Flow, places: SecretPlaces = []): (text: string) => string {
  const values = [...new Set(secretValues(flow, places).flatMap(formsOf))].filter((value) => value.length >= charsMin)
  const longestFirst = values.toSorted((left, right) => right.length - left.length)
  return (text) => longestFirst.reduce((rest, value) => rest.replaceAll(value, mask), text)
}

function secretValues(flow: Flow, places: SecretPlaces): string[] {
  const found: string[] = []
  const connectors = [flow.source, flow.sink, flow.errors?.sink, ...flow.transformations.flatMap(routeSinks)]
  for (const connector of connectors) collect(connector?.config, found)
  for (const keys of places)
    texts(
      keys.reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], flow),
      found,
    )
  return found
}

const routeSinks = (step: Flow['transformations'][number]) => (step.type === 'router' ? step.config.routes.map(({ sink }) => sink) : [])

function collect(value: unknown, found: string[]): void {
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    if (secretFields.has(key)) texts(inner, found)
    else collect(inner, found)
  }
}

function texts(value: unknown, found: string[]): void {
  if (typeof value === 'string') found.push(value)
  else if (Array.isArray(value)) for (const one of value) texts(one, found)
}

/** As it stands, as JSON and URLs print it, and the password inside a connection string. */
function formsOf(value: string): string[] {
  const inner = passwordOf(value)
  const forms = inner === undefined ? [value] : [value, inner, safeDecode(inner)]
  return forms.flatMap((form) => [form, JSON.stringify(form).slice(1, -1), encodeURIComponent(form)])
}

function passwordOf(value: string): string | undefined {
  return /^[a-z][a-z0-9+.-]*:\/\/[^/?#@:]*:([^@]+)@/i.exec(value)?.[1] ?? /\bpassword\s*=\s*'?([^\s']+)/i.exec(value)?.[1]
}

function safeDecode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
