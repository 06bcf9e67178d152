// The command line of the server: what is fixed, what the caller asked for, and what nobody may ask for.

export type PostgresSettings = {
  fsync: boolean
  logicalReplication?: boolean | undefined
  tcp?: { port: number } | undefined
  settings?: Record<string, string> | undefined
}

/** Unix socket only unless `tcp` is given; then loopback, with the same password. */
export function postgresArguments(wanted: PostgresSettings, place: { dataDir: string; socketDir: string; port: number }): string[] {
  const settings = { ...defaults, ...replication(wanted), ...durability(wanted), ...checked(wanted), ...fixed }
  return [
    '-D',
    place.dataDir,
    '-k',
    place.socketDir,
    '-p',
    String(place.port),
    '-h',
    wanted.tcp === undefined ? '' : '127.0.0.1',
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ]
}

const defaults = { shared_buffers: '64MB', timezone: 'UTC', log_timezone: 'UTC' }

/** The log is where readiness is read from: in English, on standard error. */
const fixed = { logging_collector: 'off', log_destination: 'stderr', lc_messages: 'C' }

function replication(wanted: PostgresSettings): Record<string, string> {
  return wanted.logicalReplication === true ? { wal_level: 'logical', max_replication_slots: '20', max_wal_senders: '20' } : {}
}

function durability(wanted: PostgresSettings): Record<string, string> {
  return wanted.fsync ? { fsync: 'on' } : { fsync: 'off', full_page_writes: 'off' }
}

function checked(wanted: PostgresSettings): Record<string, string> {
  const settings = wanted.settings ?? {}
  for (const name of Object.keys(settings)) {
    if (!/^[a-z_][a-z0-9_.]*$/.test(name)) throw new Error(`'${name}' is no name of a PostgreSQL setting`)
    const reason = refused[name]
    if (reason !== undefined) throw new Error(`the PostgreSQL setting ${name} cannot be given: ${reason}`)
  }
  return settings
}

const refused: Record<string, string> = {
  fsync: 'it has an option of its own',
  full_page_writes: 'it follows the option fsync',
  // Decoding sees flushed WAL only, so a slot that is read right after a commit would come back empty.
  synchronous_commit: 'readers of a replication slot would miss commits',
  listen_addresses: 'use the option tcp',
  port: 'use the option tcp',
  unix_socket_directories: 'the socket lies beside the data',
  data_directory: 'use the option dir',
}
