import { identityKey, type Member } from '@brokkr/kube'
import { expect, test } from 'vitest'
import type { DesiredObject } from './desired.ts'
import { countUnlisted, listPresentMembers, toPendingPrune } from './members-after-attempt.ts'
import type { Step } from './plan.ts'

const member = (kind: string, name: string): Member => ({
  group: kind === 'Widget' ? 'x.io' : '',
  kind,
  namespace: 'n',
  name,
  uid: `u-${name}`,
})
const step = ({ kind, name, uid, ...rest }: Member): Step => {
  const object = { apiVersion: 'v1', kind, metadata: { name, namespace: 'n' } }
  const key = identityKey({ kind, name, ...rest })
  const desired: DesiredObject = { object, fresh: object, uncut: object, ignored: [], hash: '', overwritten: [], key }
  return { do: 'unchanged', desired, uid }
}
const [map, widget] = [member('ConfigMap', 'c'), member('Widget', 'w')]
const unlisted = [{ kind: { group: 'x.io', kind: 'Widget' }, namespace: '' }]
const attempt = (incomplete: typeof unlisted) => ({ inventory: [map, widget], steps: [step(map)], incomplete })

test('a dropped member of an unlisted kind stays listed, counts, and keeps the prune pending', () => {
  const members = listPresentMembers({ ...attempt(unlisted), applied: [], pruned: [], unprunedMembers: [] })
  expect(members).toEqual([map, widget])
  expect(countUnlisted(attempt(unlisted))).toBe(1)
  expect(toPendingPrune('object', { members, steps: [step(map)], remainingCount: 2 })).toEqual({ object_id: 'object', standing: 2 })
})

test('a dropped member of a listed kind is removed from the inventory if it is absent', () => {
  const members = listPresentMembers({ ...attempt([]), applied: [], pruned: [], unprunedMembers: [] })
  expect(members).toEqual([map])
  expect(countUnlisted(attempt([]))).toBe(0)
  expect(toPendingPrune('object', { members, steps: [step(map)], remainingCount: 2 })).toBeNull()
})

test('a desired member of an unlisted kind keeps no prune pending', () => {
  expect(countUnlisted({ inventory: [map, widget], steps: [step(map), step(widget)], incomplete: unlisted })).toBe(0)
})
