// Connections of a flow to PostgreSQL: both forms of connection strings, TLS from the flow's texts, the host checked, every value as
// text, sessions that say whose they are.

import pg from 'pg'
import { checkHosts } from './checked-hosts.ts'
import { type ConnectorContext, ConnectorError } from './connector.ts'
import { postgresError } from './postgresql-errors.ts'
import { type TlsSettings, tlsOptions } from './tls-options.ts'

export interface PostgresPlace {
  readonly connectionString?: string | undefined
  readonly tls?: TlsSettings | undefined
}

const connectMs = 10_000
/** Longer than any flush may take. */
const answerMs = 330_000

export interface ConnectOptions {
  /** For the walsender protocol. */
  readonly replication?: 'database'
}

export async function connectPostgres(place: PostgresPlace, context: ConnectorContext, options: ConnectOptions = {}): Promise<pg.Client> {
  const client = new pg.Client(await clientConfig(place, context, options))
  // A connection that breaks is told by the query that needs it; without a listener it would end the process.
  client.on('error', () => undefined)
  try {
    await client.connect()
    if (options.replication === undefined)
      await client.query(
        `set timezone to 'UTC'; set datestyle to 'ISO, YMD'; set intervalstyle to 'iso_8601'; set bytea_output to 'hex'; set extra_float_digits to 3`,
      )
    return client
  } catch (thrown) {
    await client.end().catch(() => undefined)
    throw postgresError(thrown, 'connect to PostgreSQL')
  }
}

/** Also for clients that a library makes. */
export async function clientConfig(
  place: PostgresPlace,
  context: ConnectorContext,
  options: ConnectOptions = {},
): Promise<pg.ClientConfig> {
  const probe = parsed(place.connectionString ?? '')
  await checkHosts(context, probe.host === undefined || probe.host === '' ? [] : [probe.host])
  return {
    ...probe,
    ...(place.tls === undefined ? {} : { ssl: await tlsOptions(place.tls) }),
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    application_name: `brokkr/${context.flow.namespace}/${context.flow.name}`.slice(0, 63),
    ...(options.replication === undefined ? { query_timeout: answerMs, types: asText } : ({ replication: options.replication } as object)),
  }
}

/** Digits and microseconds stay as the server wrote them. */
const asText = { getTypeParser: () => (value: unknown) => value } as unknown as pg.CustomTypesConfig

/** A URL, or libpq's `key=value` pairs. */
function parsed(text: string): pg.ClientConfig {
  try {
    const given = /^postgres(ql)?:\/\//.test(text) ? { connectionString: text } : fromPairs(text)
    // The client resolves both forms and what they leave out, without connecting.
    const { host, port, user, database, password, ssl } = new pg.Client(given) as unknown as pg.ClientConfig
    return { host, port, user, database, password, ssl }
  } catch {
    // Its message would hold the text, and the text a password.
    throw new ConnectorError(
      { class: 'config', type: 'connection_error' },
      'connectionString is neither a postgres:// URL nor key=value pairs',
    )
  }
}

const names: Readonly<Record<string, string>> = {
  host: 'host',
  hostaddr: 'host',
  port: 'port',
  dbname: 'database',
  user: 'user',
  password: 'password',
}

function fromPairs(text: string): pg.ClientConfig {
  const config: Record<string, unknown> = {}
  const pattern = /\s*([a-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|(\S*))/gy
  let end = 0
  for (const match of text.matchAll(pattern)) {
    const [whole, key = '', quotedValue, plain = ''] = match
    end = match.index + whole.length
    const value = quotedValue === undefined ? plain : quotedValue.replace(/\\(.)/g, '$1')
    if (key === 'sslmode') config['ssl'] = sslOf(value)
    else if (names[key] !== undefined) config[names[key]] = key === 'port' ? Number(value) : value
  }
  if (end === 0 || text.slice(end).trim() !== '') throw new Error('not pairs')
  return config
}

/** As libpq reads it: only the two verify modes look at the certificate. */
function sslOf(mode: string): pg.ClientConfig['ssl'] {
  if (mode === 'disable' || mode === 'allow' || mode === 'prefer') return false
  return { rejectUnauthorized: mode.startsWith('verify') }
}
