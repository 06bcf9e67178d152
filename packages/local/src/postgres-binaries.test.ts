import { chmodSync, existsSync, lstatSync, mkdirSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { findPostgres, fromSystem } from './postgres-binaries.ts'
import { makeLinks, type PostgresPackage, platformPackage, usableNative } from './postgres-package.ts'
import { tempDir } from './test-parts/temp-dir.ts'

const stranger = { uid: 4242, gid: 4242 }

test('the npm package is found, its links are there, and it runs', async () => {
  const found = await findPostgres({ cache: tempDir(), npmOnly: true })
  expect(found).toMatchObject({ source: 'npm', version: expect.stringMatching(/^18\./) })
  const { native } = platformPackage()
  expect(await makeLinks(native ?? '')).toBe(true)
  expect(existsSync(found.initdb)).toBe(true)
})

test('links are made where they are missing, by several at once', async () => {
  const { native } = smallPackage(tempDir())
  expect(await Promise.all([makeLinks(native), makeLinks(native), makeLinks(native)])).toEqual([true, true, true])
  expect(readlinkSync(join(native, 'lib', 'libx.so'))).toBe('libx.so.1.2')
})

test('a package that the server’s user cannot reach is copied to where it can, readable by all, once', async () => {
  const dir = tempDir()
  const found = smallPackage(join(dir, 'closed'))
  chmodSync(join(dir, 'closed'), 0o700)
  chmodSync(join(found.native, 'lib', 'libx.so.1.2'), 0o600)
  const cache = join(dir, 'cache')
  const copy = await usableNative(found, cache, stranger)
  expect(copy).toBe(join(cache, `postgres/1.2.3-${process.platform}-${process.arch}`))
  expect(statSync(join(copy, 'bin', 'postgres')).mode & 0o777).toBe(0o755)
  expect(statSync(join(copy, 'lib', 'libx.so')).mode & 0o777).toBe(0o644)
  expect(lstatSync(join(copy, 'lib', 'libx.so')).isSymbolicLink()).toBe(true)
  rmSync(found.native, { recursive: true })
  mkdirSync(found.native)
  expect(await usableNative(found, cache, stranger)).toBe(copy)
})

test('a package within reach is used where it lies', async () => {
  const found = smallPackage(tempDir())
  expect(await usableNative(found, '/nowhere', undefined)).toBe(found.native)
  expect(await usableNative(found, '/nowhere', stranger)).toBe(found.native)
})

test('a cache that the server’s user cannot reach is replaced by an open folder', async () => {
  const dir = tempDir()
  const found = { ...smallPackage(join(dir, 'closed')), version: `0.0.0-test.${process.pid}` }
  chmodSync(join(dir, 'closed'), 0o700)
  const copy = await usableNative(found, join(dir, 'closed', 'cache'), stranger)
  rmSync(copy, { recursive: true })
  rmSync(`${copy}.lock`, { recursive: true })
  expect(copy).toMatch(/\/brokkr-[0-9]+\/postgres\/0\.0\.0-test/)
})

test('a system PostgreSQL counts from version 15 on', async () => {
  const dir = tempDir()
  const [old, good] = [systemProgram(join(dir, 'old'), '14.11'), systemProgram(join(dir, 'good'), '99.3')]
  expect(await fromSystem({ path: `${dir}:${old}:${good}` })).toEqual({
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
