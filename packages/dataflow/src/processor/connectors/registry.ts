// A schema registry with Confluent's API: schemas by id, the newest of a subject, registration. What an id means never changes, so it
// is kept; an id that nobody knows is asked for again only after a while.
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { createOutbound, type Outbound, type OutboundAnswer } from '@brokkr/runtime/outbound.ts'
import { allowedFor } from './checked-hosts.ts'
import { type ConnectorContext, ConnectorError } from './connector.ts'
import { type TlsSettings, tlsOptions } from './tls-options.ts'

export interface RegistrySettings {
  readonly url?: string | undefined
  readonly basicAuth?: { readonly username?: string | undefined; readonly password?: string | undefined } | undefined
  readonly tls?: TlsSettings | undefined
}

/** Texts in the order in which they build on each other, the schema itself last. */
export type SchemaTexts = readonly string[]
export interface Registered {
  readonly id: number
  readonly texts: SchemaTexts
}

export interface Registry {
  /** Class record when nobody knows the id, or it is no Avro. */
  byId(id: number): Promise<SchemaTexts>
  latest(subject: string): Promise<Registered | undefined>
  register(subject: string, schema: string): Promise<number>
  close(): Promise<void>
}

const timeoutMs = 10_000
const schemaBytesMax = 4 << 20
const idsMax = 10_000
const unknownForMs = 10_000
const referencesMax = 100
const tries = 3

type Answer = { id?: unknown; schema?: unknown; schemaType?: unknown; references?: unknown }

export async function openRegistry(settings: RegistrySettings, context: ConnectorContext): Promise<Registry> {
  const base = (settings.url ?? '').replace(/\/+$/, '')
  const ask = asker(await openHttp(settings, context), base, headersFor(settings), context)
  const known = new Map<number, SchemaTexts>()
  const unknown = new Map<number, number>()

  async function byId(id: number): Promise<SchemaTexts> {
    const kept = known.get(id)
    if (kept !== undefined) return kept
    if ((unknown.get(id) ?? 0) > context.clock.monotonicMs()) throw noSuch(id)
    const answer = await ask.get(`/schemas/ids/${id}`)
    if (answer === undefined) {
      if (unknown.size >= idsMax) unknown.clear()
      unknown.set(id, context.clock.monotonicMs() + unknownForMs)
      throw noSuch(id)
    }
    const texts = await withReferences(ask, answer)
    if (known.size >= idsMax) known.clear()
    known.set(id, texts)
    return texts
  }
  return {
    byId,
    async latest(subject) {
      const answer = await ask.get(`/subjects/${encodeURIComponent(subject)}/versions/latest`)
      return answer === undefined ? undefined : { id: idOf(answer), texts: await withReferences(ask, answer) }
    },
    async register(subject, schema) {
      return idOf(await ask.post(`/subjects/${encodeURIComponent(subject)}/versions`, { schema }))
    },
    close: () => ask.close(),
  }
}

const noSuch = (id: number) => recordError(`schema id ${id} is not known to the registry`)
const recordError = (message: string) => new ConnectorError({ class: 'record', type: 'invalid_data' }, message)

async function openHttp({ tls }: RegistrySettings, context: ConnectorContext): Promise<Outbound> {
  const { ca, cert, key, rejectUnauthorized } = tls === undefined ? { rejectUnauthorized: true } : await tlsOptions(tls)
  return createOutbound(
    {},
    {
      allow: allowedFor(context),
      schemes: ['https:', 'http:'],
      timeoutMs,
      answerBytesMax: schemaBytesMax,
      skipVerification: !rejectUnauthorized,
      ...(ca === undefined ? {} : { ca: [ca] }),
      ...(cert === undefined || key === undefined ? {} : { clientCertificate: { cert, key } }),
    },
  )
}

function headersFor({ basicAuth }: RegistrySettings): Record<string, string> {
  const accept = { accept: 'application/vnd.schemaregistry.v1+json, application/json' }
  if (basicAuth?.username === undefined) return accept
  const text = Buffer.from(`${basicAuth.username}:${basicAuth.password ?? ''}`).toString('base64')
  return { ...accept, authorization: `Basic ${text}` }
}

interface Asker {
  /** Undefined for 404. */
  get(path: string): Promise<Answer | undefined>
  post(path: string, body: object): Promise<Answer>
  close(): Promise<void>
}

function asker(http: Outbound, base: string, headers: Record<string, string>, context: ConnectorContext): Asker {
  const call = async (path: string, body?: string) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const sent =
          body === undefined
            ? {}
            : { method: 'POST' as const, body, headers: { ...headers, 'content-type': 'application/vnd.schemaregistry.v1+json' } }
        return judge(await http.request({ url: `${base}${path}`, headers, ...sent }), path)
      } catch (thrown) {
        const failure = registryError(thrown)
        if (failure.class !== 'transient' || attempt >= tries) throw failure
        await context.clock.sleep(200 * 2 ** attempt, context.signal)
      }
    }
  }
  return {
    get: (path) => call(path),
    post: async (path, body) => {
      const answer = await call(path, JSON.stringify(body))
      if (answer === undefined)
        throw new ConnectorError({ class: 'config', type: 'unknown' }, `the schema registry does not know POST ${path}`)
      return answer
    },
    close: () => http.close(),
  }
}

function judge({ status, body }: OutboundAnswer, path: string): Answer | undefined {
  if (status >= 200 && status < 300) return JSON.parse(body.toString()) as Answer
  if (status === 404) return undefined
  const text = `the schema registry answered ${status} to ${path}`
  if (status === 401 || status === 403) throw new ConnectorError({ class: 'config', type: 'auth_error' }, text)
  if (status === 409 || status === 422)
    throw new ConnectorError({ class: 'config', type: 'invalid_data' }, `${text}: the schema was refused`)
  const isTransient = status === 408 || status === 429 || status >= 500
  throw new ConnectorError({ class: isTransient ? 'transient' : 'config', type: isTransient ? 'transient' : 'unknown' }, text)
}

function registryError(thrown: unknown): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  if (thrown instanceof Terminal)
    return new ConnectorError({ class: 'config', type: 'connection_error' }, thrown.message, { cause: thrown })
  if (thrown instanceof Retryable) {
    const type = thrown.code === 'timeout' ? 'timeout' : 'connection_error'
    return new ConnectorError({ class: 'transient', type }, thrown.message, { cause: thrown })
  }
  return new ConnectorError({ class: 'transient', type: 'transient' }, 'the schema registry gave an answer that cannot be read', {
    cause: thrown,
  })
}

function idOf({ id }: Answer): number {
  if (typeof id === 'number' && Number.isSafeInteger(id)) return id
  throw new ConnectorError({ class: 'transient', type: 'transient' }, 'the schema registry gave no id')
}

async function withReferences(ask: Asker, answer: Answer, seen = new Set<string>()): Promise<SchemaTexts> {
  const { schema, schemaType = 'AVRO' } = answer
  if (schemaType !== 'AVRO' || typeof schema !== 'string') throw recordError(`the schema is ${String(schemaType)}, not Avro`)
  const texts: string[] = []
  for (const { subject, version } of referencesOf(answer)) {
    const path = `/subjects/${encodeURIComponent(subject)}/versions/${version}`
    if (seen.has(path)) continue
    if (seen.add(path).size > referencesMax) throw recordError(`the schema refers to more than ${referencesMax} others`)
    const found = await ask.get(path)
    if (found === undefined) throw recordError('the schema refers to one that the registry does not know')
    texts.push(...(await withReferences(ask, found, seen)))
  }
  return [...texts, schema]
}

function referencesOf({ references }: Answer): { subject: string; version: number }[] {
  const list = Array.isArray(references) ? (references as { subject?: unknown; version?: unknown }[]) : []
  return list.map(({ subject, version }) => ({ subject: String(subject), version: Number(version) }))
}
