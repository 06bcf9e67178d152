import { identityKey, identityOf, type KubeObject, type Member } from '@brokkr/kube'
import { expect, test } from 'vitest'
import type { DesiredObject } from './desired.ts'
import { type PlanInput, planStack } from './plan.ts'

const labels = { 'brokkr.io/stack': 's', 'brokkr.io/owner-id': 'a', 'applyset.kubernetes.io/part-of': 'set' }

function desired(name: string, hash = 'h', annotations: Record<string, string> = {}): DesiredObject {
  const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace: 'x', annotations } }
  return { object, fresh: object, uncut: object, ignored: [], hash, overwritten: [], key: identityKey(identityOf(object)) }
}
const live = (name: string, change: Partial<KubeObject['metadata']> = {}): KubeObject => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace: 'x', uid: `uid-${name}`, labels, annotations: { 'brokkr.io/applied-hash': 'h' }, ...change },
})
const member = (name: string, uid: string | null = `uid-${name}`): Member => ({
  group: '',
  kind: 'ConfigMap',
  namespace: 'x',
  name,
  ...(uid ? { uid } : {}),
})

const none = (): boolean => false
test.each([
  ['not there: created, and only if nobody else made it', undefined, [], none, { do: 'create', item: { expect: 'absent' } }],
  ['as we left it: nothing', live('m'), [member('m')], none, { do: 'unchanged', uid: 'uid-m' }],
  ['planned when we died and written: nothing', live('m'), [member('m', null)], none, { do: 'unchanged' }],
  [
    'other content: updated, taking fields back',
    live('m', { annotations: { 'brokkr.io/applied-hash': 'old' }, resourceVersion: '7' }),
    [member('m')],
    none,
    { do: 'update', uid: 'uid-m', item: { force: true, differs: { resourceVersion: '7', migrate: false } } },
  ],
  [
    'other content, written by an agent of the first version: updated, and its fields become ours',
    live('m', { annotations: {}, managedFields: [{ manager: 'brokkr-controller', operation: 'Apply', apiVersion: 'v1' }] }),
    [member('m')],
    none,
    { do: 'update', item: { differs: { migrate: true } } },
  ],
  ['no hash: updated', live('m', { annotations: {} }), [member('m')], none, { do: 'update' }],
  ['touched by another hand: compared', live('m'), [member('m')], (): boolean => true, { do: 'verify', item: { force: true } }],
  ['made anew by another hand: compared', live('m', { uid: 'other' }), [member('m')], none, { do: 'verify' }],
  [
    'a label taken off: ours by its uid',
    live('m', { labels: { 'applyset.kubernetes.io/part-of': 'set' } }),
    [member('m')],
    none,
    { do: 'verify' },
  ],
  [
    'our label on a strange object: not taken for ours',
    live('m', { labels: { 'applyset.kubernetes.io/part-of': 'set' }, uid: 'other' }),
    [member('m')],
    none,
    { do: 'create', item: { expect: 'absent' } },
  ],
  [
    'on its way out: waits',
    live('m', { deletionTimestamp: '2026-01-01T00:00:00Z' }),
    [member('m')],
    none,
    { do: 'hold', reason: 'terminating' },
  ],
] as const)('%s', (_what, stands, inventory, isSuspect, expected) => {
  const { steps, deletes } = planStack({
    desired: [desired('m')],
    live: stands ? [stands] : [],
    inventory,
    incomplete: [],
    labels,
    isInForce: false,
    isSuspect,
  })
  expect(steps[0]).toMatchObject(expected)
  expect(deletes).toEqual([])
})

test('an immutable object is replaced only if its manifest requests it', () => {
  const plan = (annotations: Record<string, string>) =>
    planStack({
      desired: [desired('m', 'new', annotations)],
      live: [live('m')],
      inventory: [member('m')],
      incomplete: [],
      labels,
      isInForce: false,
      isSuspect: none,
    }).steps[0]
  expect(plan({})).not.toMatchObject({ item: { replace: true } })
  expect(plan({ 'brokkr.io/replace': 'true' })).toMatchObject({ item: { replace: true } })
})

test('a member that left the ApplySet is pruned only with proven ownership', () => {
  const controller = { apiVersion: 'v1', kind: 'X', name: 'x', uid: 'u', controller: true }
  const stands = [
    live('ours'),
    live('copy'),
    live('remade', { uid: 'other' }),
    live('child', { ownerReferences: [controller] }),
    live('kept', { annotations: { 'brokkr.io/prune': 'disabled' } }),
    live('stolen', { labels: { ...labels, 'brokkr.io/stack': 'other' } }),
    live('stays'),
  ]
  const inventory = ['ours', 'remade', 'child', 'kept', 'stolen', 'stays'].map((name) => member(name))
  const { deletes, kept } = planStack({
    desired: [desired('stays')],
    live: stands,
    inventory,
    labels,
    incomplete: [],
    isInForce: false,
    isSuspect: none,
  })
  expect(deletes.map(({ metadata }) => metadata.name)).toEqual(['ours'])
  expect(Object.fromEntries(kept.map(({ key, why }) => [key.split('|').at(-1), why]))).toEqual({
    copy: 'not_in_inventory',
    remade: 'other_uid',
    child: 'has_controller',
    kept: 'kept_by_annotation',
    stolen: 'labels_differ',
  })
})

test('a dropped member without the ApplySet label is pruned, one without the others reported', () => {
  const { 'applyset.kubernetes.io/part-of': _set, ...others } = labels
  const stands = [live('unlisted', { labels: others }), live('stripped', { labels: {} }), live('stays')]
  const inventory = ['unlisted', 'stripped', 'stays'].map((name) => member(name))
  const input = { live: stands, inventory, labels, incomplete: [], isInForce: false, isSuspect: none }
  const { deletes, unproven } = planStack({ ...input, desired: [desired('stays')] })
  const names = (objects: readonly KubeObject[]) => objects.map(({ metadata }) => metadata.name)
  expect([names(deletes), names(unproven)]).toEqual([['unlisted'], ['stripped']])
})

test('an absent member counts as deleted only if its kind was listed', () => {
  const plan = (incomplete: PlanInput['incomplete']) =>
    planStack({ desired: [desired('m')], live: [], inventory: [member('m')], incomplete, labels, isInForce: true, isSuspect: none })
      .steps[0]
  const { group, kind, namespace } = member('m')
  expect(plan([])).toMatchObject({ do: 'create', isGone: true })
  expect(plan([{ kind: { group, kind }, namespace }])).toMatchObject({ do: 'create', isGone: false })
})

test('the same input yields the same plan', () => {
  const input = {
    desired: [desired('a'), desired('b', 'n')],
    live: [live('b'), live('c')],
    inventory: [member('b'), member('c')],
    incomplete: [],
    labels,
    isInForce: false,
    isSuspect: none,
  }
  expect(planStack(input)).toEqual(planStack(input))
})
