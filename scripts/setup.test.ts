import { join } from 'node:path'
import { Writable } from 'node:stream'
import { expect, test } from 'vitest'
import { runProgram } from './run-program.mjs'
import { findNode } from './setup.mjs'
import { createSteps, StepFailed, tellFailure } from './steps.mjs'
import { listTests, testFiles } from './test-files.mjs'

const root = join(import.meta.dirname, '..')
function sink(): { out: Writable & { isTTY?: boolean }; text: () => string } {
  let text = ''
  const out = new Writable({
    write: (chunk: Buffer, _, done) => {
      text += chunk.toString()
      done()
    },
  })
  return { out, text: () => text }
}

test('where no terminal watches, a step is one line for each change and one for its end', async () => {
  const { out, text } = sink()
  const value = await createSteps({ out }).run('packages', (say: (line: string) => void) => {
    say('npm ci')
    say('npm ci')
    return { detail: 'installed', value: 7 }
  })
  expect(value).toBe(7)
  expect(
    text()
      .split('\n')
      .map((line) => line.trim().replace(/ {2,}.*/, '')),
  ).toEqual(['… packages', '✔ packages', ''])
})

test('a step that fails ends with what failed, why, the last lines of its log, and what to do', async () => {
  const { out, text } = sink()
  const log = Array.from({ length: 50 }, (_, n) => `line ${n}`).join('\n')
  const failing = createSteps({ out }).run('packages', () => {
    throw new StepFailed({ what: 'packages were not installed', why: 'npm ci ended with 1', log, next: 'check the network' })
  })
  await expect(failing).rejects.toThrow('npm ci ended with 1')
  tellFailure(await failing.catch((error: unknown) => error), out)
  expect(text()).toContain('✖ packages')
  for (const part of ['packages were not installed', 'npm ci ended with 1', 'line 49', 'line 30', 'check the network'])
    expect(text()).toContain(part)
  expect(text()).not.toContain('line 29')
})

test('the Node of the platform package is taken, else the machine’s own if it is new enough, else the message says what to install', () => {
  expect(findNode()).toContain(join('node_modules', `node-${process.platform}-${process.arch}`))
  expect(findNode('22.22.0', 'none-none')).toBe(process.execPath)
  expect(findNode('26.1.0', 'none-none')).toBe(process.execPath)
  expect(() => findNode('20.20.2', 'none-none')).toThrow('no Node package for none-none')
})

test('a program’s output is kept for its failure message, and one that takes too long is ended', async () => {
  const lines: string[] = []
  const done = await runProgram(process.execPath, ['-e', 'console.log("a"); console.error("b"); process.exit(3)'], {
    onLine: (line: string) => lines.push(line),
  })
  expect(done.code).toBe(3)
  expect(done.output).toContain('b')
  expect(lines.toSorted()).toEqual(['a', 'b'])
  const late = await runProgram(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { limitMs: 200 })
  expect(late.code).not.toBe(0)
})

test('which servers a test needs is read from its imports', () => {
  const tests = listTests(root)
  const needs = (file: string) => tests.find((one) => one.file === file)?.parts
  expect(needs('packages/broker/src/seal.test.ts')).toEqual([])
  expect(needs('packages/broker/src/store/triggers.test.ts')).toEqual(['postgres'])
  expect(needs('journeys/first-change.test.ts')?.toSorted()).toEqual(['kubernetes', 'postgres'])
  const quick = testFiles(root, { tier: 'quick', without: '' })
  expect(quick.servers).toContain('packages/broker/src/store/triggers.test.ts')
  expect(quick.servers.some((file) => file.startsWith('journeys/'))).toBe(false)
  const without = testFiles(root, { tier: 'all', without: 'kubernetes' })
  expect(without.left.map(({ file }) => file)).toContain('journeys/first-change.test.ts')
  expect(without.servers).not.toContain('journeys/first-change.test.ts')
})
