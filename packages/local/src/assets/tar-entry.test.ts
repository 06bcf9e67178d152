import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { tarball } from '../test-parts/tar.ts'
import { tempDir } from '../test-parts/temp-dir.ts'
import { extractEntry } from './tar-entry.ts'

const program = Buffer.from('#!/bin/sh\n'.repeat(200))

test('extractEntry writes the entry as an executable file', async () => {
  const dir = tempDir()
  const archive = join(dir, 'archive.tar.gz')
  await writeFile(archive, tarball({ 'a-v1/': Buffer.alloc(0), 'a-v1/readme': Buffer.from('text'), 'a-v1/program': program }))
  await extractEntry(archive, 'a-v1/program', join(dir, 'program'))
  expect(await readFile(join(dir, 'program'))).toEqual(program)
  expect((await stat(join(dir, 'program'))).mode & 0o777).toBe(0o755)
})

test.each([
  ['without the entry', tarball({ 'a/other': program })],
  ['in which the entry is cut off', tarball({ 'a/program': program }).subarray(0)],
])('an archive %s is rejected', async (what, content) => {
  const dir = tempDir()
  const archive = join(dir, 'archive.tar.gz')
  await writeFile(archive, what.includes('cut') ? content.subarray(0, content.length - 20) : content)
  await expect(extractEntry(archive, 'a/program', join(dir, 'program'))).rejects.toThrow(/contains no file|unexpected end of file/)
})
