// Connections of a flow to PostgreSQL: both forms of connection strings, TLS settings, checked host, all values as text, and an application
// name.

import { PipelinedClient } from '@brokkr/postgres'
import pg from 'pg'
import { checkHosts } from '../allowed-hosts.ts'
import { type ConnectorContext, ConnectorError } from '../connector.ts'
import { type TlsSettings, tlsOptions } from '../tls-options.ts'
import { toPostgresError } from './errors.ts'

export interface PostgresPlace {
  readonly connectionString?: string | undefined
  readonly tls?: TlsSettings | undefined
}

const connectMs = 10_000
/** Longer than any flush. */
const answerMs = 330_000

export interface ConnectOptions {
  /** For the walsender protocol. */
  readonly replication?: 'database'
  /** Without a statement timeout: COPY lasts as long as its rows are read. */
  readonly isUnlimited?: boolean
}

export async function connectPostgres(place: PostgresPlace, context: ConnectorContext, options: ConnectOptions = {}): Promise<pg.Client> {
  return connect(new pg.Client(await clientConfig(place, context, options)), options)
}

/** Without COPY and cursors. The time limit of a query destroys the connection, so it must have one user. */
export async function connectPipelined(place: PostgresPlace, context: ConnectorContext): Promise<PipelinedClient> {
  return connect(new PipelinedClient(await clientConfig(place, context)))
}

async function connect<Client extends pg.Client>(client: Client, options: ConnectOptions = {}): Promise<Client> {
  // The next query reports a broken connection; without a listener the event would end the process.
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
    throw toPostgresError(thrown, 'connect to PostgreSQL')
  }
}

/** Also for clients that a library creates. */
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
    keepAliveInitialDelayMillis: 10_000,
    application_name: `brokkr/${context.flow.namespace}/${context.flow.name}`.slice(0, 63),
    ...(options.replication === undefined ? { types: asText } : ({ replication: options.replication } as object)),
    ...(options.replication === undefined && options.isUnlimited !== true ? { query_timeout: answerMs } : {}),
  }
}

/** Keeps digits and microseconds as the server wrote them. */
const asText = { getTypeParser: () => (value: unknown) => value } as unknown as pg.CustomTypesConfig

/** A URL, or libpq's `key=value` pairs. */
function parsed(text: string): pg.ClientConfig {
  try {
    const options = /^postgres(ql)?:\/\//.test(text) ? { connectionString: text } : fromPairs(text)
    // The client parses both forms and applies defaults without connecting.
    const { host, port, user, database, password, ssl } = new pg.Client(options) as unknown as pg.ClientConfig
    return { host, port, user, database, password, ssl }
  } catch {
    // The original message would contain the text with its password.
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
    if (key === 'sslmode') config['ssl'] = toSslOptions(value)
    else if (names[key] !== undefined) config[names[key]] = key === 'port' ? Number(value) : value
  }
  if (end === 0 || text.slice(end).trim() !== '') throw new Error('not pairs')
  return config
}

/** As in libpq: only the two verify modes check the certificate. */
function toSslOptions(mode: string): pg.ClientConfig['ssl'] {
  if (mode === 'disable' || mode === 'allow' || mode === 'prefer') return false
  return { rejectUnauthorized: mode.startsWith('verify') }
}
