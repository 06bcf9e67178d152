// Redacts the secrets of a flow from logs, dead letters, metrics and responses.
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'
import { mask } from '@brokkr/runtime/secret.ts'

/** Fields whose value is always secret. */
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
/** Shorter values would match ordinary words. */
const minLength = 3

export type SecretPaths = readonly (readonly (string | number)[])[]

export interface Redact {
  (text: string): string
  /** Redacts this value too, such as a token that a connector obtained. */
  add(value: string): void
}

/** Values added at run time; each renewal of a token adds one, and a token that is no longer valid need not be redacted. */
const addedMax = 100

export function createRedact(flow: Flow, places: SecretPaths = []): Redact {
  const own = toRedactedForms(secretValues(flow, places))
  const added: string[] = []
  let longestFirst = sortByLength(own)
  const redact = (text: string): string => longestFirst.reduce((rest, value) => rest.replaceAll(value, mask), text)
  const add = (value: string): void => {
    if (added.includes(value)) return
    added.push(value)
    if (added.length > addedMax) added.shift()
    longestFirst = sortByLength([...own, ...toRedactedForms(added)])
  }
  return Object.assign(redact, { add })
}

const toRedactedForms = (values: readonly string[]): string[] => values.flatMap(toPrintedForms).filter(({ length }) => length >= minLength)
const sortByLength = (values: readonly string[]): string[] => [...new Set(values)].toSorted((left, right) => right.length - left.length)

function secretValues(flow: Flow, places: SecretPaths): string[] {
  const values: string[] = []
  const connectors = [flow.source, flow.sink, flow.errors?.sink, ...flow.transformations.flatMap(routeSinks)]
  for (const connector of connectors) collectSecrets(connector?.config, values)
  for (const keys of places)
    collectTexts(
      keys.reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], flow),
      values,
    )
  return values
}

const routeSinks = (step: Flow['transformations'][number]) => (step.type === 'router' ? step.config.routes.map(({ sink }) => sink) : [])

function collectSecrets(value: unknown, found: string[]): void {
  if (typeof value !== 'object' || value === null) return
  for (const [key, inner] of Object.entries(value)) {
    if (secretFields.has(key)) collectTexts(inner, found)
    else if (typeof inner === 'string') found.push(...findCredentials(inner))
    else collectSecrets(inner, found)
  }
}

function collectTexts(value: unknown, found: string[]): void {
  if (typeof value === 'string') found.push(value)
  else if (Array.isArray(value)) for (const one of value) collectTexts(one, found)
}

/** The value itself, its JSON and URL encodings, and credentials inside a connection string. */
function toPrintedForms(value: string): string[] {
  return [value, ...findCredentials(value)].flatMap((form) => [form, JSON.stringify(form).slice(1, -1), encodeURIComponent(form)])
}

/** Credentials inside a URL or libpq's `key=value` pairs, as written and as a driver prints them. */
function findCredentials(text: string): string[] {
  const url = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/is.exec(text)
  const credentials = url === null ? pairPasswords(text) : urlCredentials(url[1]!, url[2]!)
  return credentials.flatMap((form) => [form, decodeOrKeep(form)])
}

/** Up to the last `@` before the path, because passwords are not always encoded; if there is none, the password may contain the
 *  characters that start a path. In HTTP, a user without a password is a token. */
function urlCredentials(scheme: string, rest: string): string[] {
  const [, user = '', password] = /^([^/?#:]*)(?::([^/?#]*))?@/s.exec(rest) ?? /^([^/?#:@]*):(.*)@/s.exec(rest) ?? []
  const inQuery = [...rest.matchAll(/[?&][a-z_]*password=([^&#]*)/gi)].map((match) => match[1]!)
  const token = password === undefined && user !== '' && /^https?$/i.test(scheme) ? [user] : []
  return [...(password === undefined ? [] : [password]), ...token, ...inQuery]
}

/** A quoted value may contain blanks and escaped quotes. */
function pairPasswords(text: string): string[] {
  const pairs = text.matchAll(/(?:^|\s)[a-z_]*password\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S+))/gis)
  return [...pairs].flatMap(([, quoted, plain]) => (quoted === undefined ? [plain!] : [quoted, quoted.replace(/\\(.)/gs, '$1')]))
}

function decodeOrKeep(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}
