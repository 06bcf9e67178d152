import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { chooseJava, findJava, parseMajor } from './java.ts'

test.each([
  ['JAVA_VERSION="25.0.1"\n', 25],
  ['IMPLEMENTOR="x"\nJAVA_VERSION="17"\n', 17],
  ['JAVA_VERSION="1.8.0_412"\n', 8],
  ['OTHER="25"\n', undefined],
  ['', undefined],
])('parseMajor reads %j as %s', (text, major) => {
  expect(parseMajor(text)).toBe(major)
})

test('chooseJava returns the first candidate that is new enough', () => {
  const of = (major: number | undefined) => ({ command: `/j${major}/bin/java`, home: `/j${major}`, major })
  expect(chooseJava([of(17), of(25), of(30)], 21)?.major).toBe(25)
  expect(chooseJava([of(25), of(17)], 17)?.major).toBe(25)
  expect(chooseJava([of(undefined), of(11)], 17)).toBeUndefined()
})

test('findJava prefers JAVA_HOME, and its error lists the candidates', async () => {
  const home = await mkdtemp(join(tmpdir(), 'brokkr-java-'))
  onTestFinished(() => rm(home, { recursive: true, force: true }))
  await mkdir(join(home, 'bin'))
  await writeFile(join(home, 'bin', 'java'), '', { mode: 0o755 })
  await writeFile(join(home, 'release'), 'JAVA_VERSION="99.1"\n')
  expect(findJava({ majorMin: 90, env: { JAVA_HOME: home, PATH: '' } })).toEqual({ command: join(home, 'bin', 'java'), home, major: 99 })
  expect(() => findJava({ majorMin: 100, env: { JAVA_HOME: home, PATH: '' } })).toThrow(
    /Java 100 or newer is required .* found: .*\(Java 99\).*set JAVA_HOME/,
  )
})
