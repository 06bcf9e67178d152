import { readFileSync } from 'node:fs'
import { commands } from '@brokkr/cli/commands/index.ts'
import { expect, test } from 'vitest'
import { buildCommandsPage, commandsPage } from './gen-commands.ts'

test('the command reference matches the table of commands; `npm run generate` rewrites it', () => {
  expect(readFileSync(commandsPage, 'utf8')).toBe(buildCommandsPage())
})

test('every command has one sentence, three different examples that start with it, and its own path', () => {
  const wrong = commands.flatMap(({ path, summary, examples }) => [
    ...(/^[A-Z][^]*\.$/.test(summary) ? [] : [`${path}: the summary is not a sentence`]),
    ...(new Set(examples).size === 3 ? [] : [`${path}: the examples repeat`]),
    ...examples.filter((example) => !`brokkr ${example}`.includes(`brokkr ${path.split(' ')[0]}`)).map((example) => `${path}: ${example}`),
  ])
  expect(wrong).toEqual([])
  expect(new Set(commands.map(({ path }) => path)).size).toBe(commands.length)
})
