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

test('without a terminal a step prints one line per change and one for its end', async () => {
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

test('a failed step prints the failure, its reason, the end of its log and a remedy', async () => {
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

test('the Node of the platform package is used, else a recent system Node, else a hint', () => {
  expect(findNode()).toContain(join('node_modules', `node-${process.platform}-${process.arch}`))
  expect(findNode('22.22.0', 'none-none')).toBe(process.execPath)
  expect(findNode('26.1.0', 'none-none')).toBe(process.execPath)
  expect(() => findNode('20.20.2', 'none-none')).toThrow('no Node package for none-none')
})

test('output of a program is in its failure message, and a slow program is ended', async () => {
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

test('the servers of a test are derived from its imports', () => {
  const tests = listTests(root)
  const needs = (file: string) => tests.find((one) => one.file === file)?.parts
  expect(needs('packages/broker/src/seal.test.ts')).toEqual([])
  expect(needs('packages/broker/src/schema/triggers.test.ts')).toEqual(['postgres'])
  expect(needs('journeys/first-change.test.ts')?.toSorted()).toEqual(['kubernetes', 'postgres'])
  const quick = testFiles(root, { tier: 'quick', without: '' })
  expect(quick.servers).toContain('packages/broker/src/schema/triggers.test.ts')
  expect(quick.servers.some((file) => file.startsWith('journeys/'))).toBe(false)
  const without = testFiles(root, { tier: 'all', without: 'kubernetes' })
  expect(without.left.map(({ file }) => file)).toContain('journeys/first-change.test.ts')
  expect(without.servers).not.toContain('journeys/first-change.test.ts')
})
