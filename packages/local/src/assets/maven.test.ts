import { createHash } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { checkFiles, fetchWithMaven, parseChecksums } from './maven.ts'

const hash = (text: string) => createHash('sha256').update(text).digest('hex')

test('checkFiles compares names and checksums', async () => {
  const dir = await folder()
  await writeFile(join(dir, 'a.jar'), 'a')
  await writeFile(join(dir, 'pom.xml'), '')
  await checkFiles(dir, parseChecksums(`${hash('a')}  a.jar\n`))
  await expect(checkFiles(dir, new Map([['a.jar', hash('b')]]))).rejects.toThrow('a.jar does not match checksums.txt')
  await expect(checkFiles(dir, new Map([['b.jar', hash('b')]]))).rejects.toThrow('missing b.jar; unknown a.jar')
})

test('fetchWithMaven without Maven fails with an instruction and leaves no entry', async () => {
  const cache = await folder()
  const attempt = fetchWithMaven({ cache, key: 'thing/1.0', pomDir: cache, env: { PATH: cache } })
  await expect(attempt).rejects.toThrow('thing/1.0 is downloaded with Maven, and mvn is not on PATH: install Maven')
})

async function folder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'brokkr-maven-'))
  onTestFinished(() => rm(dir, { recursive: true, force: true }))
  return dir
}
