import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import { isIdentityOf, normalizeIdentityPart } from './identity.ts'

const readIdent = (name: string, email: string): string =>
  execFileSync('git', ['var', 'GIT_AUTHOR_IDENT'], {
    env: { ...process.env, GIT_AUTHOR_NAME: name, GIT_AUTHOR_EMAIL: email, GIT_AUTHOR_DATE: '@1 +0000' },
    encoding: 'utf8',
  }).replace(/\n$/, '')

test.each([
  ['Ann', 'Ann'],
  ['Acme Inc.', 'Acme Inc'],
  ['.a.b.', 'a.b'],
  [' a\t', 'a'],
  ['a<b>c', 'abc'],
  ['a\nb', 'ab'],
  ['a\rb', 'a\rb'],
  [`'x'`, 'x'],
  ['"a"b"', 'a"b'],
  ['a\\', 'a'],
  [',;:a:;,', 'a'],
  ['.<a', 'a'],
  ['Zoë (ops)!', 'Zoë (ops)!'],
])('%j is stored by git as %j', (text, stored) => {
  expect(normalizeIdentityPart(text)).toBe(stored)
  const line = readIdent(text, text)
  expect(isIdentityOf(line, { name: text, email: text })).toBe(true)
  expect(isIdentityOf(line, { name: `${text} B`, email: text })).toBe(false)
  expect(isIdentityOf(line, { name: text, email: `${text}b` })).toBe(false)
})

test.each(['', 'Ann', 'Ann <a@x>', 'Ann a@x 1 +0000'])('%j is no line of a commit', (line) => {
  expect(isIdentityOf(line, { name: 'Ann', email: 'a@x' })).toBe(false)
})
