import fc from 'fast-check'
import { expect, test } from 'vitest'
import { diffLines, toHunks } from './line-diff.ts'

const signs = { same: ' ', add: '+', del: '-' } as const
const show = (before: string, after: string) => diffLines(before, after).map(({ kind, text }) => `${signs[kind]}${text}`)

test.each([
  ['', '', []],
  ['a\n', 'a\n', [' a']],
  ['', 'a', ['+a']],
  ['a', '', ['-a']],
  ['a\nb\nc', 'a\nx\nc', [' a', '-b', '+x', ' c']],
  ['a\nb', 'b', ['-a', ' b']],
  ['a\nc', 'a\nb\nc', [' a', '+b', ' c']],
])('from %j to %j', (before, after, lines) => {
  expect(show(before, after)).toEqual(lines)
})

test('kept and removed lines are the old text, kept and added lines the new one', () => {
  const text = fc.array(fc.constantFrom('a', 'b', 'c', 'd'), { maxLength: 30 }).map((lines) => lines.join('\n'))
  fc.assert(
    fc.property(text, text, (before, after) => {
      const lines = diffLines(before, after)
      expect(lines.flatMap(({ kind, text: line }) => (kind === 'add' ? [] : [line])).join('\n')).toBe(before)
      expect(lines.flatMap(({ kind, text: line }) => (kind === 'del' ? [] : [line])).join('\n')).toBe(after)
    }),
  )
})

test('texts that differ everywhere are shown as replaced within a limit of time', () => {
  const many = (word: string) => Array.from({ length: 5_000 }, (_, index) => `${word}${index}`).join('\n')
  expect(diffLines(many('a'), many('b'))).toHaveLength(10_000)
})

test('hunks keep lines around a change and count the others', () => {
  const before = Array.from({ length: 20 }, (_, index) => `line ${index}`).join('\n')
  const [hunk, ...others] = toHunks(diffLines(before, before.replace('line 10', 'changed')), 2)
  expect(others).toEqual([])
  expect([hunk!.skipped, hunk!.lines.length]).toEqual([8, 6])
})
