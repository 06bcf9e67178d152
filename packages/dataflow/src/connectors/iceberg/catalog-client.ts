// Thin client of the Iceberg REST catalog protocol through the outbound client. Numbers keep all digits: ids of snapshots have 63 bits.
import { isRecord, type Json, type JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { createOutbound, type Outbound, type OutboundResponse } from '@brokkr/runtime/http-client/outbound-client.ts'
import { parseLossless } from '../../message/json.ts'
import { allowedFor } from '../allowed-hosts.ts'
import type { ConnectorContext, ConnectorError } from '../connector.ts'
import { Authorization } from '../http-authorization.ts'
import { tlsOptions } from '../tls-options.ts'
import { configError, IcebergRejection, toIcebergError } from './errors.ts'
import { type CatalogPlace, toAuth, toBase } from './place.ts'
import { parseMetadata, type Schema, type TableMetadata } from './schema.ts'

export interface LoadedTable {
  readonly metadata: TableMetadata
  /** Settings for the object store, of the catalog and of the table. */
  readonly config: Readonly<Record<string, string>>
}

const requestMs = 60_000
/** A table with many snapshots has long metadata. */
const answerBytesMax = 256 << 20

export class CatalogClient {
  readonly outbound: Outbound
  readonly #place: CatalogPlace
  readonly #base: string
  readonly #authorization: Authorization
  /** Of the catalog: `prefix`, and settings for the object store. */
  #settings: Readonly<Record<string, string>> | undefined

  static async open(place: CatalogPlace, context: ConnectorContext): Promise<CatalogClient> {
    const tls = place.tls === undefined ? undefined : await tlsOptions(place.tls)
    const outbound = createOutbound(
      {},
      {
        allow: allowedFor(context),
        userAgent: 'brokkr',
        timeoutMs: requestMs,
        answerBytesMax,
        ...(tls?.ca === undefined ? {} : { ca: [tls.ca] }),
        ...(tls?.cert === undefined || tls.key === undefined ? {} : { clientCertificate: { cert: tls.cert, key: tls.key } }),
        ...(tls?.rejectUnauthorized === false ? { skipVerification: true } : {}),
      },
    )
    return new CatalogClient(place, context, outbound)
  }

  private constructor(place: CatalogPlace, context: ConnectorContext, outbound: Outbound) {
    this.#place = place
    this.#base = toBase(place)
    this.outbound = outbound
    this.#authorization = new Authorization(toAuth(place, this.#base), context, outbound, (failure, doing) =>
      toIcebergError('status' in failure ? new IcebergRejection('catalog', failure) : failure.thrown, doing),
    )
  }

  /** Undefined for a table that does not exist. `ref`: another state of a Nessie branch, such as `main@<hash>`. */
  async loadTable(signal?: AbortSignal, ref?: string): Promise<LoadedTable | undefined> {
    try {
      return this.#toTable(await this.#request('GET', await this.#tablePath(ref), { signal }))
    } catch (thrown) {
      if (thrown instanceof IcebergRejection && thrown.status === 404 && isMissingTable(thrown)) return undefined
      throw thrown
    }
  }

  /** A table or namespace that exists already is not an error. */
  async createTable(schema: Omit<Schema, 'schema-id'>, specFields: readonly object[], signal?: AbortSignal): Promise<void> {
    const { levels } = this.#place
    const ignoring409 = (thrown: unknown) => {
      if (!(thrown instanceof IcebergRejection) || thrown.status !== 409) throw thrown
    }
    const namespaces = await this.#path('namespaces')
    for (const [index] of levels.entries())
      await this.#request('POST', namespaces, { body: { namespace: levels.slice(0, index + 1), properties: {} }, signal }).catch(
        ignoring409,
      )
    const body = {
      name: this.#place.table,
      schema: { 'schema-id': 0, 'identifier-field-ids': [], ...schema },
      'partition-spec': { 'spec-id': 0, fields: specFields },
      'write-order': { 'order-id': 0, fields: [] },
      'stage-create': false,
      properties: { 'format-version': '2' },
    }
    await this.#request('POST', await this.#path(`${this.#namespacePath()}/tables`), { body, signal }).catch(ignoring409)
  }

  /** Throws IcebergRejection with 409 if a requirement is not met. */
  async commit(requirements: readonly object[], updates: readonly object[], signal?: AbortSignal): Promise<void> {
    const { levels, table } = this.#place
    const body = { identifier: { namespace: levels, name: table }, requirements, updates }
    await this.#request('POST', await this.#tablePath(), { body, signal })
  }

  /** Of the catalog's own host, such as its signer. */
  postOwn(url: string, body: object, signal?: AbortSignal): Promise<Json> {
    return this.#request('POST', url, { body, signal })
  }

  getOwn(url: string, signal?: AbortSignal): Promise<Json> {
    return this.#request('GET', url, { signal })
  }

  /** For an address below the catalog's. */
  resolve(path: string): string {
    return new URL(path, `${this.#base}/`).href
  }

  close(): Promise<void> {
    return this.outbound.close()
  }

  #toTable(answer: Json): LoadedTable {
    if (!isRecord(answer)) throw new IcebergRejection('catalog', { status: 502, kind: 'answer without a table' })
    const own = (answer['config'] ?? {}) as Record<string, string>
    const [credentials] = (answer['storage-credentials'] ?? []) as unknown as { config?: Record<string, string> }[]
    return { metadata: parseMetadata(answer['metadata']), config: { ...this.#settings, ...own, ...credentials?.config } }
  }

  async #tablePath(ref?: string): Promise<string> {
    return this.#path(`${this.#namespacePath()}/tables/${encodeURIComponent(this.#place.table)}`, ref)
  }

  #namespacePath(): string {
    return `namespaces/${encodeURIComponent(this.#place.levels.join('\u001f'))}`
  }

  async #path(rest: string, ref?: string): Promise<string> {
    this.#settings ??= await this.#readSettings()
    const prefix = this.#place.prefix(this.#settings, ref)
    return `${this.#base}/v1/${prefix === '' ? '' : `${prefix}/`}${rest}`
  }

  async #readSettings(): Promise<Record<string, string>> {
    const { warehouse, configPath = 'v1/config' } = this.#place
    const query = warehouse === undefined ? '' : `?warehouse=${encodeURIComponent(warehouse)}`
    const answer = (await this.#request('GET', `${this.#base}/${configPath}${query}`, {})) as JsonObject
    return { ...(answer['defaults'] as Record<string, string>), ...(answer['overrides'] as Record<string, string>) }
  }

  async #request(
    method: 'GET' | 'POST',
    url: string,
    { body, signal }: { body?: object; signal?: AbortSignal | undefined },
    isRenewed = false,
  ): Promise<Json> {
    // The login is for the catalog alone.
    if (URL.parse(url)?.origin !== new URL(this.#base).origin)
      throw configError(
        'the catalog names a signer at another address than its own: set accessKey and secretAccessKey, or correct the address in the catalog',
      )
    const answer = await this.outbound.request({
      url,
      method,
      headers: {
        accept: 'application/json',
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...(this.#place.hasKeys ? {} : { 'x-iceberg-access-delegation': 'vended-credentials,remote-signing' }),
        ...(await this.#authorization.headers()),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
    })
    if (answer.status >= 200 && answer.status < 300) return parseAnswer(answer)
    if ((answer.status === 401 || answer.status === 419) && !isRenewed && this.#authorization.renew())
      return this.#request(method, url, { ...(body === undefined ? {} : { body }), signal }, true)
    throw toRejection(answer)
  }
}

function parseAnswer({ body }: OutboundResponse): Json {
  if (body.length === 0) return {}
  try {
    return parseLossless(body.toString('utf8'))
  } catch {
    throw new IcebergRejection('catalog', { status: 502, kind: 'answer that is not JSON' })
  }
}

/** A namespace that does not exist has no table either; another 404 is a wrong address. */
const isMissingTable = ({ kind }: IcebergRejection): boolean => /^NoSuch(Table|Namespace)|NotFound/.test(kind)

function toRejection({ status, headers, body }: OutboundResponse): IcebergRejection {
  const seconds = Number(headers['retry-after'] ?? Number.NaN)
  const retryAfterMs = Number.isNaN(seconds) ? undefined : Math.min(seconds, 60) * 1000
  const { type = '', message = '' } = errorOf(body)
  return new IcebergRejection('catalog', { status, kind: type, text: message.split('\n')[0]!.slice(0, 300), retryAfterMs })
}

function errorOf(body: Buffer): { type?: string; message?: string } {
  try {
    const { error } = JSON.parse(body.toString('utf8')) as { error?: { type?: unknown; message?: unknown } | string }
    if (typeof error === 'string') return { type: error }
    const textOf = (value: unknown) => (typeof value === 'string' ? value : '')
    return { type: textOf(error?.type), message: textOf(error?.message) }
  } catch {
    return {}
  }
}

export const missingTable = (name: string): ConnectorError => configError(`table ${name} does not exist, and autoCreateTable is off`)
