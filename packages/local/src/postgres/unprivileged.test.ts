import { chmodSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { tempDir } from '../test-parts/temp-dir.ts'
import { canEnter, ensureSharedFolder, firstClosedFolder, unprivilegedUser, userFromPasswd } from './unprivileged.ts'

const isRoot = process.getuid?.() === 0

test.each([
  ['root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65533:nobody:/nonexistent:/usr/sbin/nologin\n', { uid: 65534, gid: 65533 }],
  ['nobody:*:-2:-2:Unprivileged User:/var/empty:/usr/bin/false\n', { uid: 4294967294, gid: 4294967294 }],
  ['nobody:x:99:99::/:\n', { uid: 99, gid: 99 }],
  ['root:x:0:0::/:\ndaemon:x:1:1::/:\nalice:x:1000:1001::/:\n', { uid: 1000, gid: 1001 }],
  ['nobody:x:0:0::/:\n', { uid: 65534, gid: 65534 }],
  ['nobody:x:::\n', { uid: 65534, gid: 65534 }],
  ['root:x:0:0:root:/:/bin/sh\n', { uid: 65534, gid: 65534 }],
  ['', { uid: 65534, gid: 65534 }],
])('userFromPasswd selects from %j the user %j', (passwd, expected) => {
  expect(userFromPasswd(passwd)).toEqual(expected)
})

test('unprivilegedUser returns a user only for root', () => {
  expect(unprivilegedUser() !== undefined).toBe(isRoot)
  expect(unprivilegedUser()?.uid).not.toBe(0)
})

test.each([
  [0o700, 7, 7, true],
  [0o600, 7, 7, false],
  [0o077, 7, 7, false],
  [0o710, 8, 7, true],
  [0o701, 8, 7, false],
  [0o701, 8, 8, true],
  [0o710, 8, 8, false],
])('canEnter for mode %o, uid %d, gid %d and user 7:7 returns %s', (mode, uid, gid, expected) => {
  expect(canEnter({ mode, uid, gid }, { uid: 7, gid: 7 })).toBe(expected)
})

test('firstClosedFolder returns the first closed folder', () => {
  const closed = join(tempDir(), 'closed')
  mkdirSync(join(closed, 'open'), { recursive: true })
  const stranger = { uid: 4242, gid: 4242 }
  expect(firstClosedFolder(join(closed, 'open'), stranger)).toBeUndefined()
  chmodSync(closed, 0o700)
  expect(firstClosedFolder(join(closed, 'open'), stranger)).toBe(closed)
  expect(firstClosedFolder(dirname(closed), stranger)).toBeUndefined()
})

test('every user can enter the shared folder, and only its owner can write', () => {
  const stranger = { uid: 4242, gid: 4242 }
  const folder = ensureSharedFolder(stranger)
  expect(ensureSharedFolder(stranger)).toBe(folder)
  expect(firstClosedFolder(folder, stranger)).toBeUndefined()
})
