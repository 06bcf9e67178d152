// Thin client of Trino's statement protocol through the outbound client: POST the statement, follow nextUri to the end. Every request has
// the current token; overload of the server is waited for.
import type { TrinoSink } from '@brokkr/contract/dataflow/connectors/trino.ts'
import type { Json } from '@brokkr/contract/dataflow/language/json.ts'
import { Retryable } from '@brokkr/runtime/errors.ts'
import { createOutbound, type Outbound, type OutboundRequest, type OutboundResponse } from '@brokkr/runtime/http-client/outbound-client.ts'
import { parseLossless } from '../../message/json.ts'
import { allowedFor } from '../allowed-hosts.ts'
import { type ConnectorContext, ConnectorError } from '../connector.ts'
import { type AuthConfig, Authorization } from '../http-authorization.ts'
import { tlsOptions } from '../tls-options.ts'
import { type QueryError, TrinoQueryFailed, TrinoRejection, toTrinoError } from './errors.ts'

export type TrinoPlace = AuthConfig &
  Pick<TrinoSink, 'serverURL' | 'catalog' | 'schema' | 'user' | 'tls' | 'queryTimeoutSeconds' | 'sessionProperties'>

export interface QueryOptions {
  /** Last part of the query's source text. */
  readonly source?: string
  readonly signal?: AbortSignal | undefined
  /** Called with the address of each next page, for `follow`. */
  onNext?(nextUri: string): void
}

export interface QueryResult {
  readonly columns: readonly { readonly name: string; readonly type: string }[]
  readonly rows: readonly (readonly Json[])[]
}

interface Page {
  readonly nextUri?: string
  readonly columns?: QueryResult['columns']
  readonly data?: (readonly Json[])[]
  readonly error?: QueryError
}

/** The server holds a request open for a second or so. */
const requestMs = 60_000
const pageBytesMax = 256 << 20
const overloadWaitMs = 100
/** Failures in a row of an overloaded server or of the connection, with growing waits. */
const overloadMax = 20

export class TrinoClient {
  readonly #place: TrinoPlace
  readonly #context: ConnectorContext
  readonly #origin: string
  readonly #outbound: Outbound
  readonly #authorization: Authorization

  static async open(place: TrinoPlace, context: ConnectorContext): Promise<TrinoClient> {
    const tls = place.tls === undefined ? undefined : await tlsOptions(place.tls)
    const outbound = createOutbound(
      {},
      {
        allow: allowedFor(context),
        userAgent: 'brokkr',
        timeoutMs: requestMs,
        answerBytesMax: pageBytesMax,
        ...(tls?.ca === undefined ? {} : { ca: [tls.ca] }),
        ...(tls?.cert === undefined || tls.key === undefined ? {} : { clientCertificate: { cert: tls.cert, key: tls.key } }),
        ...(tls?.rejectUnauthorized === false ? { skipVerification: true } : {}),
      },
    )
    return new TrinoClient(place, context, outbound)
  }

  private constructor(place: TrinoPlace, context: ConnectorContext, outbound: Outbound) {
    this.#place = place
    this.#context = context
    this.#origin = toOrigin(place.serverURL ?? '')
    this.#outbound = outbound
    this.#authorization = new Authorization(place, context, outbound, (failure, doing) =>
      toTrinoError('status' in failure ? new TrinoRejection(failure.status) : failure.thrown, doing),
    )
  }

  /** The prefix of the source text of all queries of the flow. */
  get sourcePrefix(): string {
    const { namespace, name } = this.#context.flow
    return `brokkr/${namespace}/${name}`
  }

  /** Runs a statement to its end. Throws TrinoQueryFailed, TrinoRejection or a failure of the outbound client. */
  async query(sql: string, options: QueryOptions = {}): Promise<QueryResult> {
    const headers = this.#headers(options.source)
    const first = await this.#page({ url: `${this.#origin}/v1/statement`, method: 'POST', headers, body: sql }, options.signal)
    return this.#readPages(first, headers, options)
  }

  /** Goes on with a query at the address of a page; the server keeps that page until the one behind it is requested. */
  async follow(nextUri: string, options: QueryOptions = {}): Promise<QueryResult> {
    return this.#readPages({ nextUri }, this.#headers(options.source), options)
  }

  async #readPages(first: Page, headers: Readonly<Record<string, string>>, options: QueryOptions): Promise<QueryResult> {
    let page = first
    let columns: QueryResult['columns'] = page.columns ?? []
    const rows: (readonly Json[])[] = [...(page.data ?? [])]
    while (page.error === undefined && page.nextUri !== undefined) {
      options.onNext?.(page.nextUri)
      const url = this.#own(page.nextUri)
      try {
        page = await this.#page({ url, headers }, options.signal)
      } catch (thrown) {
        if (options.signal?.aborted === true) await this.#cancel(url, headers)
        throw thrown
      }
      columns = page.columns ?? columns
      for (const row of page.data ?? []) rows.push(row)
    }
    if (page.error !== undefined) throw new TrinoQueryFailed(page.error)
    return { columns, rows }
  }

  close(): Promise<void> {
    return this.#outbound.close()
  }

  /** Also the token must not go to another host: only path and query of the address that the server names are used. */
  #own(nextUri: string): string {
    const { pathname, search } = new URL(nextUri)
    return `${this.#origin}${pathname}${search}`
  }

  async #cancel(url: string, headers: Readonly<Record<string, string>>): Promise<void> {
    const authorization = await this.#authorization.headers().catch(() => ({}))
    await this.#outbound
      .request({ url, method: 'DELETE', headers: { ...headers, ...authorization }, timeoutMs: 5_000 })
      .catch(() => undefined)
  }

  async #page(request: OutboundRequest, signal: AbortSignal | undefined): Promise<Page> {
    let isRenewed = false
    for (let overloads = 0; ; overloads += 1) {
      const headers = { ...request.headers, ...(await this.#authorization.headers()) }
      const answer = await this.#send({ ...request, headers, ...(signal === undefined ? {} : { signal }) }, overloads)
      if (answer === undefined) continue
      if (answer.status === 200) return parseLossless(answer.body.toString('utf8')) as unknown as Page
      if (answer.status === 401 && !isRenewed && this.#authorization.renew()) {
        isRenewed = true
        continue
      }
      const retryAfterMs = retryAfter(answer)
      if (![429, 502, 503, 504].includes(answer.status) || overloads >= overloadMax) throw new TrinoRejection(answer.status, retryAfterMs)
      await this.#context.clock.sleep(retryAfterMs ?? toWaitMs(overloads), signal ?? this.#context.signal)
    }
  }

  /** Undefined after a failure of the connection that is tried again: a page can be requested twice, a statement cannot. */
  async #send(request: OutboundRequest, failures: number): Promise<OutboundResponse | undefined> {
    try {
      return await this.#outbound.request(request)
    } catch (thrown) {
      const isRepeatable = request.method === undefined && thrown instanceof Retryable && request.signal?.aborted !== true
      if (!isRepeatable || failures >= overloadMax) throw thrown
      await this.#context.clock.sleep(toWaitMs(failures), request.signal ?? this.#context.signal)
      return undefined
    }
  }

  #headers(source: string | undefined): Record<string, string> {
    const { user, catalog, schema, queryTimeoutSeconds, sessionProperties = {} } = this.#place
    const session = { query_max_run_time: `${queryTimeoutSeconds}s`, ...sessionProperties }
    const pairs = Object.entries(session).map(([name, value]) => `${name}=${encodeURIComponent(value)}`)
    return {
      'x-trino-user': user,
      'x-trino-catalog': catalog,
      'x-trino-schema': schema,
      'x-trino-source': source === undefined ? this.sourcePrefix : `${this.sourcePrefix}/${source}`,
      'x-trino-time-zone': 'UTC',
      // Without it, times are cut to milliseconds.
      'x-trino-client-capabilities': 'PARAMETRIC_DATETIME',
      'x-trino-session': pairs.join(','),
      'content-type': 'text/plain; charset=utf-8',
    }
  }
}

const toWaitMs = (failures: number): number => overloadWaitMs * (failures + 1)

function retryAfter({ headers }: OutboundResponse): number | undefined {
  const seconds = Number(headers['retry-after'] ?? Number.NaN)
  return Number.isNaN(seconds) ? undefined : Math.min(seconds, 60) * 1000
}

function toOrigin(serverURL: string): string {
  const url = URL.canParse(serverURL) ? new URL(serverURL) : undefined
  if (url === undefined || (url.protocol !== 'http:' && url.protocol !== 'https:'))
    throw new ConnectorError(
      { class: 'config', type: 'connection_error' },
      'serverURL is not an address such as https://trino.example:8443',
    )
  return url.origin
}
