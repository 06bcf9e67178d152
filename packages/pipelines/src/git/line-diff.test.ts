import { expect, test } from 'vitest'
import { toLineDiff } from './line-diff.ts'

test.each([
  ['a\nb\nc\n', 'a\nB\nc\n', '--- a/f\n+++ b/f\n@@ -2,1 +2,1 @@\n-b\n+B\n'],
  ['a\nb\nc\n', 'A\nb\nC\n', '--- a/f\n+++ b/f\n@@ -1,1 +1,1 @@\n-a\n+A\n@@ -3,1 +3,1 @@\n-c\n+C\n'],
  ['a\n', 'a\n', ''],
])('a diff of %j and %j shows the lines that differ', (before, after, expected) => {
  expect(toLineDiff('f', before, after)).toBe(expected)
})
