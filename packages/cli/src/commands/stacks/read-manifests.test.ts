import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, stat, symlink, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { parseDuration } from '../../duration.ts'
import { exitCodes } from '../../output.ts'
import { manifestBytesMax, readManifests } from './read-manifests.ts'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'brokkr-manifests-'))
})
const refused = (message: string) => ({ name: 'CliError', exitCode: exitCodes.usage, message: expect.stringContaining(message) as unknown })

test('a folder is read in the order of file names, without files of other types', async () => {
  await writeFile(join(folder, 'b.yaml'), 'b: 1')
  await writeFile(join(folder, 'a.json'), '{"a":1}')
  await writeFile(join(folder, 'README.md'), 'text')
  expect(await readManifests(folder)).toBe('{"a":1}\n---\nb: 1')
  expect(await readManifests(join(folder, 'b.yaml'))).toBe('b: 1')
})

test.each([
  ['a linked manifest', async (outside: string) => symlink(join(outside, 'secret.yaml'), join(folder, 'b.yaml'))],
  ['a link to a system folder', async () => symlink('/etc', join(folder, 'etc'))],
  ['a linked folder with a manifest beneath it', async (outside: string) => symlink(outside, join(folder, 'nested'))],
  ['a link that leads nowhere', async () => symlink(join(folder, 'nowhere'), join(folder, 'b.yaml'))],
  ['a link to a manifest beside it', async () => symlink(join(folder, 'a.yaml'), join(folder, 'b.yaml'))],
  [
    'a link further down',
    async (outside: string) => {
      await mkdir(join(folder, 'deep', 'down'), { recursive: true })
      await symlink(join(outside, 'secret.yaml'), join(folder, 'deep', 'down', 'c.json'))
    },
  ],
])('[X2] %s in a folder is refused, and nothing outside is read or changed', async (_what, plant) => {
  const outside = await mkdtemp(join(tmpdir(), 'brokkr-outside-'))
  const sentinel = join(outside, 'secret.yaml')
  await writeFile(sentinel, 'password: S3CR3T')
  await utimes(sentinel, new Date(1_000_000), new Date(2_000_000))
  await writeFile(join(folder, 'a.yaml'), 'a: 1')
  await plant(outside)
  const refusal = await readManifests(folder).then(
    (text) => ({ message: `read: ${text}` }),
    (error: Error) => error,
  )
  expect(refusal).toMatchObject(refused('link_refused'))
  expect(refusal.message).not.toContain('S3CR3T')
  expect(await readFile(sentinel, 'utf8')).toBe('password: S3CR3T')
  expect((await stat(sentinel)).mtimeMs).toBe(2_000_000)
})

test('a folder or a named pipe with the name of a manifest is rejected', async () => {
  await mkdir(join(folder, 'a.yaml'))
  await expect(readManifests(folder)).rejects.toMatchObject(refused('not_a_file'))
  const second = await mkdtemp(join(tmpdir(), 'brokkr-manifests-'))
  execFileSync('mkfifo', [join(second, 'a.yaml')])
  await expect(readManifests(second)).rejects.toMatchObject(refused('not_a_file'))
})

test('a file or a folder over the byte limit is rejected', async () => {
  const half = 'x'.repeat(manifestBytesMax / 2 + 1)
  await writeFile(join(folder, 'a.yaml'), half)
  expect((await readManifests(folder)).length).toBe(half.length)
  await writeFile(join(folder, 'b.yaml'), half)
  await expect(readManifests(folder)).rejects.toMatchObject(refused(`more than ${manifestBytesMax} bytes`))
  await writeFile(join(folder, 'c'), half + half)
  await expect(readManifests(join(folder, 'c'))).rejects.toMatchObject(refused(`more than ${manifestBytesMax} bytes`))
})

test.each([
  ['300', 300_000],
  ['90s', 90_000],
  ['5m', 300_000],
  ['1.5h', 5_400_000],
  ['250ms', 250],
])('--timeout %s is parsed as %d ms', (text, ms) => {
  expect(parseDuration(text, '--timeout')).toBe(ms)
})

test.each(['', '0', '-1', '5 minutes', 'NaN', '1e9', '5d', '400h'])('--timeout "%s" is a usage error', (text) => {
  expect(() => parseDuration(text, '--timeout')).toThrow('--timeout')
})
