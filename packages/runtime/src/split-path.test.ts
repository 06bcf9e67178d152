import fc from 'fast-check'
import { expect, test } from 'vitest'
import { splitPath } from './split-path.ts'

test.each([
  ['a', ['a']],
  ['a/b.yaml', ['a', 'b.yaml']],
  ['./a//b/', ['a', 'b']],
  ['.hidden/..name/name..', ['.hidden', '..name', 'name..']],
  ['100%/a b/ü', ['100%', 'a b', 'ü']],
  ['~/x', ['~', 'x']],
  ['.', []],
])('%j is %j', (path, parts) => {
  expect(splitPath(path)).toEqual({ parts })
})

test.each([
  ['', 'empty'],
  ['..', 'dots'],
  ['../x', 'dots'],
  ['a/../../x', 'dots'],
  ['a/..', 'dots'],
  ['/etc/passwd', 'absolute'],
  ['//host/share', 'absolute'],
  ['C:\\x', 'backslash'],
  ['C:x', 'drive'],
  ['c:/x', 'drive'],
  ['Ｃ:/x', 'drive'],
  ['\\\\h\\s', 'backslash'],
  ['..\\x', 'backslash'],
  ['%2e%2e/x', 'encoded'],
  ['%2E./x', 'encoded'],
  ['a%2fb', 'encoded'],
  ['..%5cx', 'encoded'],
  ['%252e%252e/x', 'encoded'],
  ['a%00', 'encoded'],
  ['．．/x', 'dots'],
  ['․․/x', 'dots'],
  ['‥/x', 'dots'],
  ['.. /x', 'dots'],
  ['.\u200b./x', 'dots'],
  ['..／x', 'looks like a slash'],
  ['..＼x', 'looks like a slash'],
  ['a∕b', 'looks like a slash'],
  ['a\0b', 'control'],
  ['a\nb', 'control'],
  ['\ud800', 'well-formed'],
  ['x'.repeat(256), '255 bytes'],
  ['ü'.repeat(128), '255 bytes'],
  ['a/'.repeat(65), '64 parts'],
  ['a/'.repeat(3_000), '4096 characters'],
])('%j is refused: %s', (path, why) => {
  expect(splitPath(path)).toEqual({ problem: expect.stringContaining(why) })
})

test('an accepted path never leads outside its root in any reading', () => {
  const piece = fc.constantFrom('a', '.', '..', '/', '\\', '%2e', '%2F', '．', '／', '\0', 'C:', ' ', '‥', 'b.yaml', '%', '~')
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string(),
        fc.array(piece, { maxLength: 8 }).map((pieces) => pieces.join('')),
      ),
      (path) => {
        const result = splitPath(path)
        const parts = 'parts' in result ? result.parts : []
        for (const reading of [(part: string) => part, (part: string) => part.normalize('NFKC'), (part: string) => decoded(part)]) {
          for (const part of parts.map(reading)) expect(part).not.toMatch(/^\.\.?$|[/\\\0]/)
        }
      },
    ),
    { numRuns: 2_000 },
  )
})

function decoded(part: string): string {
  return part.replace(/%([0-9a-f]{2})/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)))
}
