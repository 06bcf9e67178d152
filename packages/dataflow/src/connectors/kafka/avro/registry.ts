// Client of a schema registry with Confluent's API: schemas by id, latest of a subject, registration. The schema of an id never changes, so
// it is cached; an unknown id is requested again only after a pause.
import { Retryable, Terminal } from '@brokkr/runtime/errors.ts'
import { createOutbound, type Outbound, type OutboundResponse } from '@brokkr/runtime/http-client/outbound-client.ts'
import { allowedFor } from '../../allowed-hosts.ts'
import { type ConnectorContext, ConnectorError } from '../../connector.ts'
import { type TlsSettings, tlsOptions } from '../../tls-options.ts'

export interface RegistrySettings {
  readonly url?: string | undefined
  readonly basicAuth?: { readonly username?: string | undefined; readonly password?: string | undefined } | undefined
  readonly tls?: TlsSettings | undefined
}

/** Schema texts in dependency order, the schema itself last. */
export type SchemaTexts = readonly string[]
export interface Registered {
  readonly id: number
  readonly texts: SchemaTexts
}

export interface Registry {
  /** Class record if the id is unknown or not an Avro schema. */
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
const attemptsMax = 3

type Answer = { id?: unknown; schema?: unknown; schemaType?: unknown; references?: unknown }

export async function openRegistry(settings: RegistrySettings, context: ConnectorContext): Promise<Registry> {
  const base = (settings.url ?? '').replace(/\/+$/, '')
  const ask = createRegistryHttp(await openHttp(settings, context), base, headersFor(settings), context)
  const schemasById = new Map<number, SchemaTexts>()
  const unknownUntilMs = new Map<number, number>()

  async function byId(id: number): Promise<SchemaTexts> {
    const schema = schemasById.get(id)
    if (schema !== undefined) return schema
    if ((unknownUntilMs.get(id) ?? 0) > context.clock.monotonicMs()) throw createUnknownIdError(id)
    const answer = await ask.get(`/schemas/ids/${id}`)
    if (answer === undefined) {
      if (unknownUntilMs.size >= idsMax) unknownUntilMs.clear()
      unknownUntilMs.set(id, context.clock.monotonicMs() + unknownForMs)
      throw createUnknownIdError(id)
    }
    const texts = await withReferences(ask, answer)
    if (schemasById.size >= idsMax) schemasById.clear()
    schemasById.set(id, texts)
    return texts
  }
  return {
    byId,
    async latest(subject) {
      const answer = await ask.get(`/subjects/${encodeURIComponent(subject)}/versions/latest`)
      return answer === undefined ? undefined : { id: parseId(answer), texts: await withReferences(ask, answer) }
    },
    async register(subject, schema) {
      return parseId(await ask.post(`/subjects/${encodeURIComponent(subject)}/versions`, { schema }))
    },
    close: () => ask.close(),
  }
}

const createUnknownIdError = (id: number) => recordError(`schema id ${id} is not known to the registry`)
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

interface RegistryHttp {
  /** Undefined for 404. */
  get(path: string): Promise<Answer | undefined>
  post(path: string, body: object): Promise<Answer>
  close(): Promise<void>
}

function createRegistryHttp(http: Outbound, base: string, headers: Record<string, string>, context: ConnectorContext): RegistryHttp {
  const call = async (path: string, body?: string) => {
    for (let attempt = 1; ; attempt += 1) {
      try {
        const requestBody =
          body === undefined
            ? {}
            : { method: 'POST' as const, body, headers: { ...headers, 'content-type': 'application/vnd.schemaregistry.v1+json' } }
        return judge(await http.request({ url: `${base}${path}`, headers, ...requestBody }), path)
      } catch (thrown) {
        const failure = registryError(thrown)
        if (failure.class !== 'transient' || attempt >= attemptsMax) throw failure
        await context.clock.sleep(200 * 2 ** attempt, context.signal)
      }
    }
  }
  return {
    get: (path) => call(path),
    post: async (path, body) => {
      const answer = await call(path, JSON.stringify(body))
      if (answer === undefined)
        throw new ConnectorError({ class: 'config', type: 'unknown' }, `the schema registry returned 404 for POST ${path}`)
      return answer
    },
    close: () => http.close(),
  }
}

function judge({ status, body }: OutboundResponse, path: string): Answer | undefined {
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
  return new ConnectorError({ class: 'transient', type: 'transient' }, 'the response of the schema registry is invalid', {
    cause: thrown,
  })
}

function parseId({ id }: Answer): number {
  if (typeof id === 'number' && Number.isSafeInteger(id)) return id
  throw new ConnectorError({ class: 'transient', type: 'transient' }, 'the response of the schema registry has no id')
}

async function withReferences(ask: RegistryHttp, answer: Answer, seen = new Set<string>()): Promise<SchemaTexts> {
  const { schema, schemaType = 'AVRO' } = answer
  if (schemaType !== 'AVRO' || typeof schema !== 'string') throw recordError(`the schema is ${String(schemaType)}, not Avro`)
  const texts: string[] = []
  for (const { subject, version } of toReferences(answer)) {
    const path = `/subjects/${encodeURIComponent(subject)}/versions/${version}`
    if (seen.has(path)) continue
    if (seen.add(path).size > referencesMax) throw recordError(`the schema references more than ${referencesMax} schemas`)
    const reference = await ask.get(path)
    if (reference === undefined) throw recordError('the schema references a schema that the registry does not have')
    texts.push(...(await withReferences(ask, reference, seen)))
  }
  return [...texts, schema]
}

function toReferences({ references }: Answer): { subject: string; version: number }[] {
  const list = Array.isArray(references) ? (references as { subject?: unknown; version?: unknown }[]) : []
  return list.map(({ subject, version }) => ({ subject: String(subject), version: Number(version) }))
}
