import type { Member } from '@brokkr/kube/applyset.ts'
import { identityKey } from '@brokkr/kube/object.ts'
import { expect, test } from 'vitest'
import type { DesiredObject } from './desired.ts'
import { basisAfter, presentMembers, unseenLeft } from './inventory.ts'
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

test('a member that was dropped while nobody could look at its kind stays listed, counts as standing, and keeps its stack open', () => {
  const members = presentMembers({ ...attempt(unlisted), applied: [], pruned: [], spared: [] })
  expect(members).toEqual([map, widget])
  expect(unseenLeft(attempt(unlisted))).toBe(1)
  expect(basisAfter('object', { members, steps: [step(map)], standing: 2 })).toEqual({ object_id: 'object', standing: 2 })
})

test('one of a kind that was listed is gone if it was not seen, and then nothing is left to do', () => {
  const members = presentMembers({ ...attempt([]), applied: [], pruned: [], spared: [] })
  expect(members).toEqual([map])
  expect(unseenLeft(attempt([]))).toBe(0)
  expect(basisAfter('object', { members, steps: [step(map)], standing: 2 })).toBeNull()
})

test('a wanted member of an unlisted kind is no reason to come back', () => {
  expect(unseenLeft({ inventory: [map, widget], steps: [step(map), step(widget)], incomplete: unlisted })).toBe(0)
})
