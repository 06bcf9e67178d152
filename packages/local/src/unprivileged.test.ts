import { chmodSync, mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { tempDir } from './test-parts/temp-dir.ts'
import { firstClosedFolder, mayEnter, openFolder, unprivilegedUser, userFromPasswd } from './unprivileged.ts'

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
])('of the users %j the unprivileged one is %j', (passwd, expected) => {
  expect(userFromPasswd(passwd)).toEqual(expected)
})

test('only root has somebody to drop to', () => {
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
])('mode %o of uid %d and gid %d: may 7:7 enter? %s', (mode, uid, gid, expected) => {
  expect(mayEnter({ mode, uid, gid }, { uid: 7, gid: 7 })).toBe(expected)
})

test('the first folder that is closed is named', () => {
  const closed = join(tempDir(), 'closed')
  mkdirSync(join(closed, 'open'), { recursive: true })
  const stranger = { uid: 4242, gid: 4242 }
  expect(firstClosedFolder(join(closed, 'open'), stranger)).toBeUndefined()
  chmodSync(closed, 0o700)
  expect(firstClosedFolder(join(closed, 'open'), stranger)).toBe(closed)
  expect(firstClosedFolder(dirname(closed), stranger)).toBeUndefined()
})

test('a folder that every user can reach is ours alone to write', () => {
  const stranger = { uid: 4242, gid: 4242 }
  const folder = openFolder(stranger)
  expect(openFolder(stranger)).toBe(folder)
  expect(firstClosedFolder(folder, stranger)).toBeUndefined()
})
