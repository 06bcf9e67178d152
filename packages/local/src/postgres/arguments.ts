// Command line of the server: fixed settings, settings of the caller, and settings that the caller must not change.

export type PostgresSettings = {
  fsync: boolean
  logicalReplication?: boolean | undefined
  tcp?: { port: number } | undefined
  settings?: Record<string, string> | undefined
}

/** Unix socket only unless `tcp` is given; then loopback, with the same password. */
export function postgresArguments(options: PostgresSettings, location: { dataDir: string; socketDir: string; port: number }): string[] {
  const settings = { ...defaults, ...replication(options), ...durability(options), ...checkSettings(options), ...fixedSettings }
  return [
    '-D',
    location.dataDir,
    '-k',
    location.socketDir,
    '-p',
    String(location.port),
    '-h',
    options.tcp === undefined ? '' : '127.0.0.1',
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ]
}

const defaults = { shared_buffers: '64MB', timezone: 'UTC', log_timezone: 'UTC' }

/** Readiness is detected in the log, so it must be in English and on standard error. */
const fixedSettings = { logging_collector: 'off', log_destination: 'stderr', lc_messages: 'C' }

function replication(options: PostgresSettings): Record<string, string> {
  return options.logicalReplication === true ? { wal_level: 'logical', max_replication_slots: '20', max_wal_senders: '20' } : {}
}

function durability(options: PostgresSettings): Record<string, string> {
  return options.fsync ? { fsync: 'on' } : { fsync: 'off', full_page_writes: 'off' }
}

function checkSettings(options: PostgresSettings): Record<string, string> {
  const settings = options.settings ?? {}
  for (const name of Object.keys(settings)) {
    if (!/^[a-z_][a-z0-9_.]*$/.test(name)) throw new Error(`'${name}' is not a valid name of a PostgreSQL setting`)
    const reason = reservedSettings[name]
    if (reason !== undefined) throw new Error(`the PostgreSQL setting ${name} cannot be set: ${reason}`)
  }
  return settings
}

const reservedSettings: Record<string, string> = {
  fsync: 'use the option fsync',
  full_page_writes: 'it follows the option fsync',
  // Decoding reads flushed WAL only, so a slot that is read right after a commit could return nothing.
  synchronous_commit: 'readers of a replication slot would miss commits',
  listen_addresses: 'use the option tcp',
  port: 'use the option tcp',
  unix_socket_directories: 'the socket is beside the data',
  data_directory: 'use the option dir',
}
