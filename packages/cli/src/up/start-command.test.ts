import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { findStartCommand } from './start-command.ts'

test('a built program starts with the command of its description', () => {
  const dir = mkdtempSync(join(tmpdir(), 'brokkr-program-of-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const file = join(dir, 'programs.json')
  writeFileSync(file, JSON.stringify({ stamp: 's', programs: { agent: { args: ['--flag', '/built/agent.mjs'], env: { A: '1' } } } }))
  const env = { BROKKR_PROGRAMS: file }
  expect(findStartCommand('agent', env)).toEqual({ command: process.execPath, args: ['--flag', '/built/agent.mjs'], env: { A: '1' } })
  expect(findStartCommand('broker', env).args.at(-1)).toBe('broker')
})

test('a program without a description starts through this command line', () => {
  expect(findStartCommand('broker', {})).toEqual({ command: process.execPath, args: [process.argv[1], 'broker'], env: {} })
})
