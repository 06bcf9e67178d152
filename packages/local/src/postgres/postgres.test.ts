// long: starts and kills servers of its own
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { freePort } from '../supervisor/free-ports.ts'
import { isSameProcess, readStartTime } from '../supervisor/process-table.ts'
import { spawnOwned } from '../supervisor/spawn-owned.ts'
import { copyPostgresSeed, makePostgresSeed } from '../test-parts/postgres-seed.ts'
import { runScript } from '../test-parts/run-script.ts'
import { makeTempDir, tempDir } from '../test-parts/temp-dir.ts'
import { type PostgresOptions, type PostgresServer, startPostgres } from './postgres.ts'
import { removePostgres } from './remove-postgres.ts'
import { unprivilegedUser } from './unprivileged.ts'

const isRoot = process.getuid?.() === 0
let seed: string

// A server is made in a second, but a busy machine may need ten times as long.
vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 })

beforeAll(async () => {
  seed = makeTempDir()
  await makePostgresSeed(seed)
})

afterAll(() => rmSync(seed, { recursive: true, force: true }))

test('a server listens on its socket with the requested settings as an ordinary user', async () => {
  const dir = join(tempDir(), 'pg')
  // What an initdb that was killed leaves.
  mkdirSync(join(dir, 'data.new', 'base'), { recursive: true })
  const server = await start({ dir, logicalReplication: true, settings: { max_connections: '30' } })
  expect(await rows(server, 'select 1 as one')).toEqual([{ one: 1 }])
  const shown = await rows(server, settingsQuery)
  expect(Object.fromEntries(shown.map((row) => [row['name'], row['setting']]))).toEqual({
    fsync: 'off',
    listen_addresses: '',
    lc_messages: 'C',
    max_connections: '30',
    password_encryption: 'scram-sha-256',
    server_encoding: 'UTF8',
    synchronous_commit: 'on',
    wal_level: 'logical',
  })
  expect(statSync(server.dataDir).uid).not.toBe(0)
  expect(statSync(server.socketDir).mode & 0o777).toBe(0o700)
  expect(statSync(join(dir, 'password')).mode & 0o777).toBe(0o600)
  expect(readFileSync(join(dir, 'password'), 'utf8').trim()).toBe(server.password)
  expect(readdirSync(server.socketDir)).not.toContain('initial-password')
  expect(existsSync(join(dir, 'data.new'))).toBe(false)
  await expect(rows({ url: () => server.url().replace(server.password, 'wrong') }, 'select 1')).rejects.toThrow(
    'password authentication failed',
  )
  expect(
    execFileSync('ps', ['-o', 'uid=', '-p', String(server.pid)])
      .toString()
      .trim(),
  ).not.toBe('0')
})

test('committed rows survive kill -9 and a stop', async () => {
  const dir = copyPostgresSeed(seed, tempDir())
  const server = await start({ dir })
  await rows(server, 'create table kept (id int)')
  await rows(server, 'insert into kept select generate_series(1, 1000)')
  const killed = server.pid
  await server.kill('SIGKILL')
  expect(server.isRunning()).toBe(false)
  await server.restart()
  expect(server.pid).not.toBe(killed)
  expect(await rows(server, 'select count(*)::int as n from kept')).toEqual([{ n: 1000 }])
  await server.stop()
  expect(server.logTail(1)).toContain('database system is shut down')
  const again = await start({ dir })
  expect(again.password).toBe(server.password)
  expect(await rows(again, 'select count(*)::int as n from kept')).toEqual([{ n: 1000 }])
})

test('a restart waits for remaining children of a killed server', async () => {
  const server = await start({ dir: copyPostgresSeed(seed, tempDir()) })
  const client = new pg.Client({ connectionString: server.url() })
  client.on('error', () => {})
  await client.connect()
  const backend = Number((await client.query('select pg_backend_pid() as pid')).rows[0]?.pid)
  process.kill(backend, 'SIGSTOP')
  await server.kill('SIGKILL')
  const restarting = server.restart()
  await waitFor('the first try to be refused', () => server.logTail().includes('is still in use'))
  process.kill(backend, 'SIGCONT')
  await restarting
  expect(await rows(server, 'select 1 as one')).toEqual([{ one: 1 }])
  await client.end().catch(() => {})
})

test.runIf(process.platform === 'linux')('a start succeeds while a killed server is a zombie', async () => {
  const dir = copyPostgresSeed(seed, tempDir())
  const starter = runScript(
    `import { startPostgres } from 'local/postgres/postgres.ts'
    const server = await startPostgres({ dir: process.argv[1], fsync: false, npmOnly: true })
    say(JSON.stringify([server.pid, server.startTime])); await ended()`,
    [dir],
  )
  const [pid, startTime] = JSON.parse(await starter.line()) as [number, string]
  // A stopped parent does not reap its child, as a parent that got no CPU time or crashed in a container without an init process.
  starter.kill('SIGSTOP')
  process.kill(pid, 'SIGKILL')
  await waitFor('the server to be dead', () => !isSameProcess(pid, startTime))
  expect(readFileSync(`/proc/${pid}/stat`, 'utf8')).toContain(') Z ')
  expect(await rows(await start({ dir }), 'select 1 as one')).toEqual([{ one: 1 }])
})

test('a running server is adopted, and restarted if its settings differ', async () => {
  const dir = copyPostgresSeed(seed, tempDir())
  const first = await start({ dir })
  const adopted = await start({ dir })
  expect(adopted.pid).toBe(first.pid)
  expect(await rows(adopted, 'select 1 as one')).toEqual([{ one: 1 }])
  await expect(start({ dir, adopt: false })).rejects.toThrow(`PostgreSQL runs already on ${first.dataDir} (pid ${first.pid})`)
  const other = await start({ dir, logicalReplication: true })
  expect(other.pid).not.toBe(adopted.pid)
  expect(first.isRunning()).toBe(false)
  expect(await rows(other, 'show wal_level')).toEqual([{ wal_level: 'logical' }])
  await adopted.stop()
  expect(other.isRunning()).toBe(true)
})

test('two concurrent starts share one server', async () => {
  const dir = tempDir()
  const script = `
    import { startPostgres } from 'local/postgres/postgres.ts'
    const server = await startPostgres({ dir: process.argv[1], fsync: false, npmOnly: true })
    say(String(server.pid)); await ended(); await server.stop()`
  const both = [runScript(script, [dir]), runScript(script, [dir])]
  const pids = await Promise.all(both.map((one) => one.line()))
  expect(pids[0]).toBe(pids[1])
  for (const one of both) one.release()
  await Promise.all(both.map((one) => one.exited))
  expect(readStartTime(Number(pids[0]))).toBeUndefined()
})

test('a stale postmaster.pid with a reused pid is ignored without a signal', async () => {
  const dir = copyPostgresSeed(seed, tempDir())
  const server = await start({ dir })
  const note = readFileSync(join(server.dataDir, 'postmaster.pid'), 'utf8').split('\n')
  await server.stop()
  const runAs = unprivilegedUser()
  // The same user, since PostgreSQL itself sees through strangers of other users; a program which that user can run, wherever this
  // clone lies (our own Node may be in a folder that is closed to others).
  const stranger = spawnOwned({
    name: 'stranger',
    command: '/bin/sleep',
    args: ['600'],
    cwd: '/',
    logFile: join(dir, 'x.log'),
    ...(runAs ? { runAs } : {}),
  })
  onTestFinished(() => stranger.stop())
  const pidFile = join(server.dataDir, 'postmaster.pid')
  writeFileSync(pidFile, [stranger.pid, ...note.slice(1)].join('\n'))
  if (runAs) chownSync(pidFile, runAs.uid, runAs.gid)
  await server.restart()
  expect(await rows(server, 'select 1 as one')).toEqual([{ one: 1 }])
  expect(stranger.isRunning()).toBe(true)
})

test('two servers run side by side, one of them also on a loopback port', async () => {
  const port = await freePort()
  const [quiet, open] = await Promise.all([start({ dir: tempDir() }), start({ dir: tempDir(), tcp: { port } })])
  await rows(open, 'create database inventory')
  const byTcp = { url: () => `postgresql://postgres:${open.password}@127.0.0.1:${port}/inventory` }
  expect(await rows(byTcp, 'select current_database() as name')).toEqual([{ name: 'inventory' }])
  expect(await rows(open, 'select current_database() as name', 'inventory')).toEqual([{ name: 'inventory' }])
  expect(await rows(quiet, `select count(*)::int as n from pg_database where datname = 'inventory'`)).toEqual([{ n: 0 }])
  expect(open.password).not.toBe(quiet.password)
})

test('a failed start reports the end of the log and leaves no process', async () => {
  const dir = copyPostgresSeed(seed, tempDir())
  const failing = start({ dir, settings: { shared_buffers: 'plenty' } })
  await expect(failing).rejects.toThrow(
    /PostgreSQL did not start on .*; the end of .*postgres\.log:\n.*invalid value for parameter "shared_buffers": "plenty"/s,
  )
  expect(existsSync(join(dir, 'run'))).toBe(false)
  const server = await start({ dir })
  expect(server.isRunning()).toBe(true)
})

test('a start can be aborted', async () => {
  const stop = new AbortController()
  stop.abort(new Error('called off'))
  await expect(start({ dir: copyPostgresSeed(seed, tempDir()), signal: stop.signal })).rejects.toThrow('called off')
})

test('a data directory of another version is not changed', async () => {
  const dir = tempDir()
  makeData(dir, '12')
  await expect(start({ dir })).rejects.toThrow(/were written by PostgreSQL 12, but .* is version 18; dump and load them/)
})

test('a data directory without its password file is not changed', async () => {
  const dir = tempDir()
  makeData(dir, '18')
  await expect(start({ dir })).rejects.toThrow('password of the database beside it, is missing')
})

test('a wrong password fails at once', async () => {
  const dir = copyPostgresSeed(seed, tempDir())
  writeFileSync(join(dir, 'password'), 'another\n')
  await expect(start({ dir })).rejects.toThrow(`PostgreSQL rejects the password in ${join(dir, 'password')}`)
  await expect(start({ dir, adopt: false })).rejects.toThrow('rejects the password')
})

test('the socket of a deep folder is in a short one until the server stops', async () => {
  const dir = join(tempDir(), 'd'.repeat(100), 'pg')
  const server = await start({ dir })
  expect(server.socketDir).toMatch(/brokkr-pg-[0-9a-f]{12}$/)
  expect(await rows(server, 'select 1 as one')).toEqual([{ one: 1 }])
  await server.stop()
  expect(existsSync(server.socketDir)).toBe(false)
})

test('a socket path over the limit is rejected before any file is created', async () => {
  const deep = join(tempDir(), 'd'.repeat(100))
  const before = process.env['TMPDIR']
  process.env['TMPDIR'] = deep
  onTestFinished(() => {
    if (before === undefined) delete process.env['TMPDIR']
    else process.env['TMPDIR'] = before
  })
  await expect(start({ dir: deep })).rejects.toThrow(
    /the Unix socket of PostgreSQL would have a path of \d+ bytes .* but the system allows/,
  )
  expect(readdirSync(deep)).toEqual([])
})

test('removePostgres deletes all files of a stopped server', async () => {
  const dir = copyPostgresSeed(seed, tempDir())
  const server = await start({ dir })
  expect(() => removePostgres(dir)).toThrow('PostgreSQL still runs')
  await server.stop()
  removePostgres(dir)
  expect(existsSync(dir)).toBe(false)
  removePostgres(dir)
})

test.runIf(process.platform === 'linux')('a server ends with its killed parent, and its data can be opened again', async () => {
  const dir = copyPostgresSeed(seed, tempDir())
  const starter = runScript(
    `import { startPostgres } from 'local/postgres/postgres.ts'
    const server = await startPostgres({ dir: process.argv[1], fsync: false, npmOnly: true })
    say(JSON.stringify([server.pid, server.startTime])); await ended()`,
    [dir],
  )
  const [pid, startTime] = JSON.parse(await starter.line()) as [number, string]
  expect(isSameProcess(pid, startTime)).toBe(true)
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)
  expect(children.length).toBeGreaterThan(2)
  starter.kill('SIGKILL')
  await waitFor('the server to be gone', () => [pid, ...children].every((one) => readStartTime(one) === undefined))
  expect(await rows(await start({ dir }), 'select 1 as one')).toEqual([{ one: 1 }])
})

test('PostgreSQL starts below an unreadable directory', async () => {
  const closed = tempDir()
  chmodSync(closed, 0o700)
  const dir = join(closed, 'deep', 'pg')
  const server = await start({ dir })
  expect(server.dataDir.startsWith(closed)).toBe(!isRoot)
  await rows(server, 'create table kept (id int)')
  await server.stop()
  const again = await start({ dir })
  expect(await rows(again, 'select * from kept')).toEqual([])
  await again.stop()
  removePostgres(dir)
  expect(existsSync(server.dataDir)).toBe(false)
})

test('a data directory of another user is not changed', async () => {
  const dir = tempDir()
  // Root serves data as their owner, but never as root; everybody else serves only their own.
  if (isRoot) mkdirSync(join(dir, 'data'))
  else symlinkSync('/', join(dir, 'data'))
  await expect(start({ dir })).rejects.toThrow(/the data in .* belong to uid 0, not \d+; start as that user/)
})

function makeData(dir: string, version: string): void {
  mkdirSync(join(dir, 'data'), { mode: 0o700 })
  writeFileSync(join(dir, 'data', 'PG_VERSION'), `${version}\n`)
  const owner = unprivilegedUser()
  if (owner !== undefined) chownSync(join(dir, 'data'), owner.uid, owner.gid)
}

const settingsQuery = `select name, setting from pg_settings where name in ('fsync', 'listen_addresses', 'lc_messages',
  'max_connections', 'password_encryption', 'server_encoding', 'synchronous_commit', 'wal_level')`

async function start(options: Omit<PostgresOptions, 'fsync'>): Promise<PostgresServer> {
  const server = await startPostgres({ fsync: false, npmOnly: true, ...options })
  onTestFinished(() => server.stop())
  return server
}

async function rows(server: Pick<PostgresServer, 'url'>, query: string, database?: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: server.url(database) })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query(query)).rows as Record<string, unknown>[]
  } finally {
    await client.end()
  }
}
