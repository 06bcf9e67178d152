import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, statSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempDir } from '../test-parts/temp-dir.ts'
import { chooseSocketDir, makeSocketDir, preparePostgresFolders } from './folders.ts'
import { removePostgres } from './remove-postgres.ts'
import { firstClosedFolder } from './unprivileged.ts'

const isRoot = process.getuid?.() === 0
const self = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }

test('the socket is beside the data, or in a short folder if the path is too long', () => {
  const tmp = '/tmp'
  expect(chooseSocketDir({ home: '/srv/brokkr/pg', tmp, port: 5432 })).toBe('/srv/brokkr/pg/run')
  const deep = `/srv/${'d'.repeat(100)}`
  const short = chooseSocketDir({ home: deep, tmp, port: 5432 })
  expect(short).toMatch(/^\/tmp\/brokkr-pg-[0-9a-f]{12}$/)
  expect(chooseSocketDir({ home: deep, tmp, port: 5432 })).toBe(short)
  expect(chooseSocketDir({ home: `${deep}x`, tmp, port: 5432 })).not.toBe(short)
})

test('the limit of the socket path counts bytes and includes the port', () => {
  const limit = process.platform === 'linux' ? 107 : 103
  const fits = `/${'d'.repeat(limit - '/'.length - '/run/.s.PGSQL.5432'.length)}`
  expect(chooseSocketDir({ home: fits, tmp: '/tmp', port: 5432 })).toBe(`${fits}/run`)
  expect(chooseSocketDir({ home: fits, tmp: '/tmp', port: 54321 })).not.toBe(`${fits}/run`)
  expect(chooseSocketDir({ home: `${fits.slice(1, -1)}ü`, tmp: '/tmp', port: 5432 })).toBe(`${fits.slice(1, -1)}ü/run`)
  expect(chooseSocketDir({ home: `${fits.slice(0, -1)}ü`, tmp: '/tmp', port: 5432 })).not.toContain('ü')
})

test('two socket paths over the limit fail with lengths and an instruction', () => {
  const place = { home: `/srv/${'d'.repeat(100)}`, tmp: `/tmp/${'t'.repeat(100)}`, port: 5432 }
  expect(() => chooseSocketDir(place)).toThrow(
    /path of 123 bytes in \/srv\/d+\/run .* but the system allows 10[37]; use a shorter folder, or set TMPDIR/,
  )
})

test('only the server user can enter the socket folder', () => {
  const dir = tempDir()
  const folders = preparePostgresFolders(join(dir, 'pg'), 5432)
  mkdirSync(folders.socketDir, { mode: 0o755 })
  makeSocketDir(folders)
  const seen = statSync(folders.socketDir)
  expect(seen.mode & 0o777).toBe(0o700)
  expect(seen.uid).toBe(folders.user?.uid ?? process.getuid?.())
})

test('a socket folder that is a link or belongs to another user is rejected', () => {
  const dir = tempDir()
  symlinkSync('/', join(dir, 'link'))
  expect(() => makeSocketDir({ socketDir: join(dir, 'link'), user: undefined })).toThrow('belongs to another user')
  if (!isRoot) return
  mkdirSync(join(dir, 'foreign'))
  chownSync(join(dir, 'foreign'), 4242, 4242)
  expect(() => makeSocketDir({ socketDir: join(dir, 'foreign'), user: { uid: 65534, gid: 65534 } })).toThrow(
    'belongs to another user (uid 4242)',
  )
})

test('an unreachable folder is replaced by a shared one, and both are removed together', () => {
  const closed = join(tempDir(), 'closed')
  mkdirSync(closed, { mode: 0o700 })
  const folders = preparePostgresFolders(join(closed, 'pg'), 5432)
  expect(folders.home.startsWith(closed)).toBe(!isRoot)
  expect(firstClosedFolder(folders.home, folders.user ?? self)).toBeUndefined()
  expect(preparePostgresFolders(join(closed, 'pg'), 5432)).toEqual(folders)
  const other = preparePostgresFolders(join(closed, 'other'), 5432)
  removePostgres(join(closed, 'pg'))
  expect(existsSync(folders.home)).toBe(false)
  expect(existsSync(other.home)).toBe(true)
  rmSync(join(closed, 'other'), { recursive: true })
  // The next one to need such a place sweeps what nobody can claim any more.
  preparePostgresFolders(join(closed, 'third'), 5432)
  expect(existsSync(other.home)).toBe(false)
  removePostgres(join(closed, 'third'))
})

test('existing data is served by its owner', () => {
  const dir = tempDir()
  mkdirSync(join(dir, 'data'))
  if (isRoot) chownSync(join(dir, 'data'), 4242, 4343)
  expect(preparePostgresFolders(dir, 5432).user).toEqual(isRoot ? { uid: 4242, gid: 4343 } : undefined)
})

test('root adds only execute permission to a closed folder', () => {
  const dir = tempDir()
  chmodSync(dir, 0o700)
  expect(preparePostgresFolders(dir, 5432).home).toBe(dir)
  expect(statSync(dir).mode & 0o777).toBe(isRoot ? 0o711 : 0o700)
})
