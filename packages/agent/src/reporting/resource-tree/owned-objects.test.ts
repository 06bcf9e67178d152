import { expect, test } from 'vitest'
import { selectNamespaces } from './owned-objects.ts'

test.each([
  ['nothing', [], null, []],
  ['two namespaces', ['b', 'a'], null, ['a', 'b']],
  ['namespaces that are allowed', ['b', 'a'], ['b'], ['b']],
  ['more namespaces than are watched one by one', Array.from({ length: 30 }, (_, n) => `n${n}`), null, ['']],
])('objects owned by members in %s are watched in the namespaces of their owners', (_what, owners, allowed, expected) => {
  expect(selectNamespaces(new Set(owners), allowed)).toEqual(expected)
})
