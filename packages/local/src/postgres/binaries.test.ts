import { chmodSync, existsSync, lstatSync, mkdirSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tempDir } from '../test-parts/temp-dir.ts'
import { findPostgres, findSystemPostgres } from './binaries.ts'
import { makeLinks, type PostgresPackage, platformPackage, prepareNative } from './platform-package.ts'

const stranger = { uid: 4242, gid: 4242 }

test('the npm package is found with its links and runs', async () => {
  const found = await findPostgres({ cache: tempDir(), npmOnly: true })
  expect(found).toMatchObject({ source: 'npm', version: expect.stringMatching(/^18\./) })
  const { native } = platformPackage()
  expect(await makeLinks(native ?? '')).toBe(true)
  expect(existsSync(found.initdb)).toBe(true)
})

test('makeLinks creates missing links, also concurrently', async () => {
  const { native } = smallPackage(tempDir())
  expect(await Promise.all([makeLinks(native), makeLinks(native), makeLinks(native)])).toEqual([true, true, true])
  expect(readlinkSync(join(native, 'lib', 'libx.so'))).toBe('libx.so.1.2')
})

test('a package that the server user cannot read is copied once', async () => {
  const dir = tempDir()
  const found = smallPackage(join(dir, 'closed'))
  chmodSync(join(dir, 'closed'), 0o700)
  chmodSync(join(found.native, 'lib', 'libx.so.1.2'), 0o600)
  const cache = join(dir, 'cache')
  const copy = await prepareNative(found, cache, stranger)
  expect(copy).toBe(join(cache, `postgres/1.2.3-${process.platform}-${process.arch}`))
  expect(statSync(join(copy, 'bin', 'postgres')).mode & 0o777).toBe(0o755)
  expect(statSync(join(copy, 'lib', 'libx.so')).mode & 0o777).toBe(0o644)
  expect(lstatSync(join(copy, 'lib', 'libx.so')).isSymbolicLink()).toBe(true)
  rmSync(found.native, { recursive: true })
  mkdirSync(found.native)
  expect(await prepareNative(found, cache, stranger)).toBe(copy)
})

test('readable binaries are used without a copy', async () => {
  const found = smallPackage(tempDir())
  expect(await prepareNative(found, '/nowhere', undefined)).toBe(found.native)
  expect(await prepareNative(found, '/nowhere', stranger)).toBe(found.native)
})

test('an unreadable cache is replaced by a shared folder', async () => {
  const dir = tempDir()
  const found = { ...smallPackage(join(dir, 'closed')), version: `0.0.0-test.${process.pid}` }
  chmodSync(join(dir, 'closed'), 0o700)
  const copy = await prepareNative(found, join(dir, 'closed', 'cache'), stranger)
  rmSync(copy, { recursive: true })
  rmSync(`${copy}.lock`, { recursive: true })
  expect(copy).toMatch(/\/brokkr-[0-9]+\/postgres\/0\.0\.0-test/)
})

test('a system PostgreSQL before version 15 is rejected', async () => {
  const dir = tempDir()
  const [old, good] = [systemProgram(join(dir, 'old'), '14.11'), systemProgram(join(dir, 'good'), '99.3')]
  expect(await findSystemPostgres({ path: `${dir}:${old}:${good}` })).toEqual({
    source: 'system',
    version: '99.3',
    postgres: join(good, 'postgres'),
    initdb: join(good, 'initdb'),
  })
})

function smallPackage(dir: string): PostgresPackage {
  const native = join(dir, 'native')
  mkdirSync(join(native, 'bin'), { recursive: true })
  mkdirSync(join(native, 'lib'))
  writeFileSync(join(native, 'bin', 'postgres'), '', { mode: 0o755 })
  writeFileSync(join(native, 'lib', 'libx.so.1.2'), 'library')
  writeFileSync(join(native, 'pg-symlinks.json'), '[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so"}]')
  return { name: 'small', native, version: '1.2.3' }
}

function systemProgram(folder: string, version: string): string {
  mkdirSync(folder)
  writeFileSync(join(folder, 'initdb'), '', { mode: 0o755 })
  writeFileSync(join(folder, 'postgres'), `#!/bin/sh\necho 'postgres (PostgreSQL) ${version} (Debian ${version}-1)'\n`, { mode: 0o755 })
  return folder
}
