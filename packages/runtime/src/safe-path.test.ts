import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { type FileHandle, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { size } from '@brokkr/testing/sizes.ts'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openUnder, PathRefused, resolveUnder } from './safe-path.ts'
import { makePipe } from './test-parts/child.ts'

let base = ''
let outside = ''
beforeAll(() => {
  base = realpathSync(mkdtempSync(join(tmpdir(), 'brokkr-path-')))
  outside = join(base, 'outside')
  mkdirSync(join(outside, 'dir'), { recursive: true })
  for (const name of ['secret', 'dir/secret', 'a']) writeFileSync(join(outside, name), 'outside')
})
afterAll(() => rmSync(base, { recursive: true }))

let roots = 0
function newRoot(): string {
  const root = join(base, `root-${roots++}`)
  mkdirSync(root)
  return root
}

/** Names, contents and times of everything outside: nothing may change there. */
function outsideState(): string {
  const entries = readdirSync(outside, { recursive: true, withFileTypes: true }).map((entry) => join(entry.parentPath, entry.name))
  return JSON.stringify(
    entries.toSorted().map((path) => [path, statSync(path).isFile() ? readFileSync(path, 'utf8') : '', statSync(path).mtimeMs]),
  )
}

async function opened(opening: Promise<FileHandle>): Promise<string> {
  const handle = await opening
  try {
    return await handle.readFile('utf8')
  } finally {
    await handle.close()
  }
}

const hostile = [
  '../x',
  '../outside/secret',
  '/etc/passwd',
  'C:\\x',
  '\\\\h\\s',
  '%2e%2e/',
  '%2e%2e/outside/secret',
  '．．/outside/secret',
  'a\0b',
  'a/../../outside/secret',
  '..\\outside\\secret',
]

test.each(hostile)('[X1] %j is refused as path_outside_root, and nothing outside is opened', async (path) => {
  const root = newRoot()
  const before = outsideState()
  await expect(resolveUnder(root, path)).rejects.toMatchObject({ name: 'PathRefused', code: 'path_outside_root' })
  await expect(openUnder(root, path)).rejects.toMatchObject({ code: 'path_outside_root' })
  await expect(openUnder(root, path, { mode: 'create', makeParents: true })).rejects.toMatchObject({ code: 'path_outside_root' })
  expect(outsideState()).toBe(before)
})

type Node = { name: string; is: 'file' | 'dir' | 'link'; target: string; children: Node[] }
const names = ['a', 'b', 'dir', 'secret', '..x']
const targets = [
  '..',
  '../outside',
  '../../outside',
  '../outside/secret',
  '/etc/passwd',
  '.',
  'a',
  'dir',
  '../dir',
  'nowhere',
  '../outside/new',
  'OUTSIDE',
  'OUTSIDE/secret',
  'ROOT',
  'ROOT/a',
  'a/b/../../..',
  'self',
]
const node: fc.Memo<Node> = fc.memo((depth) =>
  fc.record({
    name: fc.constantFrom(...names),
    is: fc.constantFrom('file', 'dir', 'link'),
    target: fc.constantFrom(...targets),
    children: depth > 1 ? fc.array(node(depth - 1), { maxLength: 4 }) : fc.constant([]),
  }),
)
const foreignPath = fc
  .array(fc.constantFrom(...names, ...names, '.', '..', '', '%2e%2e', '．．', 'new'), { minLength: 1, maxLength: 5 })
  .map((parts) => parts.join('/'))

function build(root: string, dir: string, nodes: readonly Node[]): void {
  for (const { name, is, target, children } of new Map(nodes.map((one) => [one.name, one])).values()) {
    const path = join(dir, name)
    if (is === 'file') writeFileSync(path, 'inside')
    if (is === 'link') symlinkSync(target === 'self' ? name : target.replace('OUTSIDE', outside).replace('ROOT', root), path)
    if (is !== 'dir') continue
    mkdirSync(path)
    build(root, path, children)
  }
}

function isUnder(root: string, path: string): boolean {
  return path === root || path.startsWith(`${root}/`)
}

/** The real place of a path that may not exist yet: that of its nearest existing folder. */
function placeOf(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return placeOf(dirname(path))
  }
}

test('[X1] in random trees full of links no path is resolved, opened or created outside', {
  timeout: 20_000 + 100 * size('Q7.cases'),
}, async () => {
  const before = outsideState()
  const counts = { resolved: 0, read: 0, created: 0, refused: 0 }
  const inTree = fc.asyncProperty(
    fc.array(node(3), { maxLength: 5 }),
    fc.array(foreignPath, { minLength: 1, maxLength: 12 }),
    async (nodes, paths) => {
      const root = newRoot()
      build(root, root, nodes)
      for (const path of paths) {
        const place = await resolveUnder(root, path).catch((error: unknown) => error)
        expect(typeof place === 'string' ? isUnder(root, placeOf(place)) : place instanceof PathRefused).toBe(true)
        counts[typeof place === 'string' ? 'resolved' : 'refused'] += 1
        counts.read += await tryOpen(root, () => openUnder(root, path))
        counts.created += await tryOpen(root, () => openUnder(root, path, { mode: 'create', makeParents: true }))
      }
      rmSync(root, { recursive: true })
    },
  )
  // Now and then so many draws hold few files that are there to be read: then there are more of them.
  do await fc.assert(inTree, { numRuns: size('Q7.cases') })
  while (Math.min(...Object.values(counts)) <= 10)
  expect(outsideState()).toBe(before)
})

/** 1 when a file was opened; it is then one of the root's own, by the name the kernel has for it. */
async function tryOpen(root: string, open: () => Promise<FileHandle>): Promise<number> {
  const handle = await open().catch(() => null)
  if (!handle) return 0
  expect(isUnder(root, readlinkSync(`/proc/self/fd/${handle.fd}`))).toBe(true)
  await handle.close()
  return 1
}

test('[X1] a folder swapped for a link while a file is opened never leads outside', async () => {
  const root = newRoot()
  mkdirSync(join(root, 'dir'))
  writeFileSync(join(root, 'dir/secret'), 'inside')
  symlinkSync(join(outside, 'dir'), join(root, 'link'))
  const seen = new Set<string>()
  const readers = { areBusy: true }
  const reading = Promise.all(
    Array.from({ length: 4 }, async () => {
      for (let n = 0; n < 400; n += 1)
        seen.add(await opened(openUnder(root, 'dir/secret')).catch((error: NodeJS.ErrnoException) => String(error.code)))
    }),
  ).finally(() => (readers.areBusy = false))
  const turn = () => new Promise((resolve) => setImmediate(resolve))
  while (readers.areBusy) {
    renameSync(join(root, 'dir'), join(root, 'real'))
    renameSync(join(root, 'link'), join(root, 'dir'))
    await turn()
    renameSync(join(root, 'dir'), join(root, 'link'))
    renameSync(join(root, 'real'), join(root, 'dir'))
    await turn()
  }
  await reading
  expect(seen).toContain('inside')
  expect(seen).toContain('link_refused')
  expect(seen).not.toContain('outside')
})

test('resolveUnder resolves files, folders and missing paths, and follows inner links', async () => {
  const root = newRoot()
  mkdirSync(join(root, 'dir'))
  writeFileSync(join(root, 'dir/a'), 'inside')
  symlinkSync('dir/a', join(root, 'link'))
  symlinkSync(root, join(root, 'home'))
  symlinkSync(root, join(base, 'alias'))
  expect(await resolveUnder(root, 'dir/a')).toBe(join(root, 'dir/a'))
  expect(await resolveUnder(root, '.')).toBe(root)
  expect(await resolveUnder(root, 'link')).toBe(join(root, 'dir/a'))
  expect(await resolveUnder(root, 'home/dir/./a')).toBe(join(root, 'dir/a'))
  expect(await resolveUnder(root, 'new/deep/file')).toBe(join(root, 'new/deep/file'))
  expect(await resolveUnder(root, 'dir/a/below-a-file')).toBe(join(root, 'dir/a/below-a-file'))
  expect(await resolveUnder(join(base, 'alias'), 'dir/a')).toBe(join(root, 'dir/a'))
})

test.each([
  ['to a folder outside', () => outside, 'link/secret'],
  ['to a file outside', () => join(outside, 'secret'), 'link'],
  ['to nowhere', () => join(outside, 'not-yet'), 'link'],
  ['to itself', () => 'link', 'link'],
  ['up', () => '..', 'link/outside/secret'],
])('a link %s is refused', async (_what, target, path) => {
  const root = newRoot()
  symlinkSync(target(), join(root, 'link'))
  await expect(resolveUnder(root, path)).rejects.toMatchObject({ code: 'path_outside_root' })
  await expect(openUnder(root, path)).rejects.toMatchObject({ code: 'link_refused' })
})

test('a root beside another with a longer name is not its parent', async () => {
  const root = newRoot()
  mkdirSync(`${root}-other`)
  symlinkSync(`${root}-other`, join(root, 'link'))
  await expect(resolveUnder(root, 'link')).rejects.toMatchObject({ code: 'path_outside_root' })
})

test('openUnder reads files and creates new ones with folders for their owner only', async () => {
  const root = newRoot()
  const handle = await openUnder(root, 'new/deep/file', { mode: 'create', makeParents: true })
  await handle.writeFile('inside')
  await handle.close()
  expect(await opened(openUnder(root, 'new/deep/file'))).toBe('inside')
  expect(statSync(join(root, 'new/deep/file')).mode & 0o777).toBe(0o600)
  expect(statSync(join(root, 'new')).mode & 0o777).toBe(0o700)
  await expect(openUnder(root, 'new/deep/file', { mode: 'create' })).rejects.toMatchObject({ code: 'EEXIST' })
  await expect(openUnder(root, 'missing/file')).rejects.toMatchObject({ code: 'ENOENT' })
  await expect(openUnder(root, 'missing/file', { mode: 'create' })).rejects.toMatchObject({ code: 'ENOENT' })
  expect(await readFile(join(root, 'new/deep/file'), 'utf8')).toBe('inside')
})

test('folders and pipes are no files, and a pipe does not hold us up', async () => {
  const root = newRoot()
  mkdirSync(join(root, 'dir'))
  makePipe(join(root, 'pipe'))
  await expect(openUnder(root, 'dir')).rejects.toMatchObject({ code: 'not_a_file' })
  await expect(openUnder(root, 'pipe')).rejects.toMatchObject({ code: 'not_a_file' })
  await expect(openUnder(root, '.')).rejects.toMatchObject({ code: 'not_a_file' })
})

test('no descriptor stays open after any outcome', async () => {
  const root = newRoot()
  mkdirSync(join(root, 'a/b'), { recursive: true })
  symlinkSync(outside, join(root, 'a/b/link'))
  const open = () =>
    readdirSync('/proc/self/fd')
      .map((fd) => fileOf(fd))
      .filter((path) => path.startsWith(root)).length
  for (const path of ['a/b/link/secret', 'a/b/none', 'a/b', 'a/none/x', 'a/b/link']) await openUnder(root, path).catch(() => null)
  expect(open()).toBe(0)
})

function fileOf(fd: string): string {
  try {
    return readlinkSync(`/proc/self/fd/${fd}`)
  } catch {
    return ''
  }
}
