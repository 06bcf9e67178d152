import { expect, test } from 'vitest'
import { type PostgresSettings, postgresArguments } from './arguments.ts'

const place = { dataDir: '/d', socketDir: '/s', port: 5432 }
const settingsOf = (wanted: PostgresSettings) => postgresArguments(wanted, place).filter((argument) => argument.includes('='))

test('a server without TCP listens on its socket only', () => {
  expect(postgresArguments({ fsync: true }, place).slice(0, 8)).toEqual(['-D', '/d', '-k', '/s', '-p', '5432', '-h', ''])
  expect(postgresArguments({ fsync: true, tcp: { port: 7 } }, place).slice(6, 8)).toEqual(['-h', '127.0.0.1'])
})

test('fsync and full page writes are disabled only on request', () => {
  expect(settingsOf({ fsync: true })).toContain('fsync=on')
  expect(settingsOf({ fsync: true })).not.toContain('full_page_writes=off')
  expect(settingsOf({ fsync: false })).toEqual(expect.arrayContaining(['fsync=off', 'full_page_writes=off']))
  expect(settingsOf({ fsync: false }).filter((one) => one.startsWith('synchronous_commit'))).toEqual([])
})

test('settings of the caller override defaults', () => {
  expect(settingsOf({ fsync: true, logicalReplication: true })).toEqual(
    expect.arrayContaining(['wal_level=logical', 'max_replication_slots=20', 'max_wal_senders=20', 'shared_buffers=64MB']),
  )
  expect(settingsOf({ fsync: true }).filter((one) => one.startsWith('wal_level'))).toEqual([])
  const given = settingsOf({ fsync: true, settings: { shared_buffers: '16MB', max_connections: '300', logging_collector: 'on' } })
  expect(given).toEqual(expect.arrayContaining(['shared_buffers=16MB', 'max_connections=300', 'logging_collector=off']))
  expect(given).not.toContain('shared_buffers=64MB')
})

test.each(['fsync', 'full_page_writes', 'synchronous_commit', 'listen_addresses', 'port', 'data_directory'])(
  'the reserved setting %s is rejected',
  (name) => {
    expect(() => settingsOf({ fsync: true, settings: { [name]: 'off' } })).toThrow(`the PostgreSQL setting ${name} cannot be set`)
  },
)

test.each(['', 'Fsync', 'a=b', '-c', 'a b'])('the setting name %j is rejected', (name) => {
  expect(() => settingsOf({ fsync: true, settings: { [name]: 'x' } })).toThrow('is not a valid name of a PostgreSQL setting')
})
