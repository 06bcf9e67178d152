// HTTP interface of ClickHouse through the outbound client, so that address checks, TLS rules and limits hold. One request per
// statement; the server answers after the statement has ended, so the status is its result.
import type { ClickhouseSource } from '@brokkr/contract/dataflow/connectors/clickhouse.ts'
import { createOutbound, type Outbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import { allowedFor } from '../allowed-hosts.ts'
import { type ConnectorContext, ConnectorError } from '../connector.ts'
import { ClickhouseRejection } from './errors.ts'

export type ClickhousePlace = Pick<ClickhouseSource, 'connectionString' | 'httpPort'>

export interface Statement {
  readonly sql: string
  /** Data behind the statement. */
  readonly body?: string
  /** Values of `{name:Type}` in the statement. */
  readonly params?: Readonly<Record<string, string>>
  readonly settings?: Readonly<Record<string, string | number>>
  readonly signal?: AbortSignal | undefined
  readonly answerBytesMax?: number
}

/** Texts in RFC3339 and UTC in both directions, numbers with all digits. */
const commonSettings = {
  wait_end_of_query: 1,
  session_timezone: 'UTC',
  date_time_input_format: 'best_effort',
  date_time_output_format: 'iso',
  output_format_json_quote_64bit_integers: 0,
  output_format_json_quote_decimals: 0,
  // NaN and infinities have no number in JSON.
  output_format_json_quote_denormals: 1,
}
/** A query ends on the server when its request is given up. The server does this for read-only requests alone. */
const querySettings = { default_format: 'JSONEachRow', readonly: 2, cancel_http_readonly_queries_on_client_close: 1 }
/** Longer than any flush. */
const answerMs = 330_000
const answerBytesMax = 1 << 20

export class ClickhouseClient {
  readonly database: string
  readonly #origin: string
  readonly #headers: Readonly<Record<string, string>>
  readonly #outbound: Outbound

  constructor(place: ClickhousePlace, context: ConnectorContext) {
    const { url, database, user, password } = parseConnection(place)
    this.database = database
    this.#origin = url
    this.#headers = { 'x-clickhouse-user': user, ...(password === '' ? {} : { 'x-clickhouse-key': password }) }
    const flow = `brokkr/${context.flow.namespace}/${context.flow.name}`
    this.#outbound = createOutbound({}, { allow: allowedFor(context), userAgent: flow, timeoutMs: answerMs, answerBytesMax })
  }

  /** The answer's text. Throws ClickhouseRejection, or a failure of the outbound client. */
  async run(statement: Statement): Promise<string> {
    const { sql, body, signal } = statement
    const answer = await this.#outbound.request({
      url: `${this.#origin}/?${this.#search(statement)}`,
      method: 'POST',
      headers: this.#headers,
      body: body ?? sql,
      ...(signal === undefined ? {} : { signal }),
      ...(statement.answerBytesMax === undefined ? {} : { answerBytesMax: statement.answerBytesMax }),
    })
    const text = answer.body.toString('utf8')
    const code = Number(answer.headers['x-clickhouse-exception-code'] ?? /^Code: (\d+)\. /.exec(text)?.[1] ?? Number.NaN)
    if (answer.status === 200 && Number.isNaN(code)) return text
    const retryAfter = Number(answer.headers['retry-after'] ?? Number.NaN)
    throw new ClickhouseRejection({
      status: answer.status,
      code: Number.isNaN(code) ? undefined : code,
      text,
      retryAfterMs: Number.isNaN(retryAfter) ? undefined : retryAfter * 1000,
    })
  }

  /** One object per row of a query. */
  async rows<T>(statement: Statement): Promise<T[]> {
    const text = await this.run({ ...statement, settings: { ...querySettings, ...statement.settings } })
    return text
      .split('\n')
      .filter((line) => line !== '')
      .map((line) => JSON.parse(line) as T)
  }

  close(): Promise<void> {
    return this.#outbound.close()
  }

  #search({ sql, body, params = {}, settings = {} }: Statement): URLSearchParams {
    const search = new URLSearchParams({ database: this.database })
    for (const [name, value] of Object.entries({ ...commonSettings, ...settings })) search.set(name, String(value))
    // The server reads values of parameters in its escaped text format.
    for (const [name, value] of Object.entries(params)) search.set(`param_${name}`, escapeParam(value))
    if (body !== undefined) search.set('query', sql)
    return search
  }
}

const escapeParam = (value: string): string =>
  value.replaceAll('\\', '\\\\').replaceAll('\t', '\\t').replaceAll('\n', '\\n').replaceAll('\r', '\\r').replaceAll('\0', '\\0')

export interface Connection {
  /** Origin, without credentials. */
  readonly url: string
  readonly database: string
  readonly user: string
  readonly password: string
}

/** `http(s)://host:8123/db`; `clickhouse://host:9000/db` names the native port, so it is mapped to the HTTP one. */
export function parseConnection({ connectionString, httpPort }: ClickhousePlace): Connection {
  const given = URL.canParse(connectionString) && canDecode(connectionString) ? new URL(connectionString) : undefined
  const scheme = given?.protocol
  if (given === undefined || (scheme !== 'http:' && scheme !== 'https:' && scheme !== 'clickhouse:') || given.hostname === '')
    // The original text may contain a password.
    throw new ConnectorError(
      { class: 'config', type: 'connection_error' },
      'connectionString is not an address such as http://host:8123/database or clickhouse://host:9000/database',
    )
  const isNative = scheme === 'clickhouse:'
  const isTls = scheme === 'https:' || (isNative && given.searchParams.get('secure') === 'true')
  const port = httpPort ?? (isNative ? (isTls ? 8443 : 8123) : given.port)
  return {
    url: `${isTls ? 'https' : 'http'}://${given.hostname}${port === '' ? '' : `:${port}`}`,
    database: decodeURIComponent(given.pathname.slice(1)) || given.searchParams.get('database') || 'default',
    user: decodeURIComponent(given.username) || given.searchParams.get('username') || 'default',
    password: decodeURIComponent(given.password) || given.searchParams.get('password') || '',
  }
}

function canDecode(text: string): boolean {
  try {
    decodeURIComponent(text)
    return true
  } catch {
    return false
  }
}
