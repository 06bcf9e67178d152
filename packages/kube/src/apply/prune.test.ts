import { randomBytes } from 'node:crypto'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import type { Kube } from '../client/kube.ts'
import { identityKey, identityOf, type KubeObject, nameKey, refOf } from '../client/object.ts'
import { CONFIG_MAP, configMap, openTestKube, widgetDefinition } from '../test-parts/open-test-kube.ts'
import { applyObjects } from './apply-objects.ts'
import { type ApplySet, addPlannedMembers, applySetId, emptyApplySet, keepMembers, PART_OF_LABEL } from './applyset.ts'
import { listApplySets, listMembers, readApplySet, removeApplySet, saveApplySet } from './applyset-store.ts'
import { judgePrune, pruneObjects } from './prune.ts'

const fieldManager = 'brokkr-agent'
const form = { tooling: 'brokkr/v0.0.0', type: 'brokkr.io/stack' }
let kube: Kube
let at: Awaited<ReturnType<typeof cluster>>
beforeAll(async () => {
  at = await cluster()
  kube = await openTestKube(at)
})

/** Applies the objects as members of a set, as the agent does: addPlannedMembers, apply, keepMembers. */
async function applyAs(set: ApplySet, objects: readonly KubeObject[]): Promise<ApplySet> {
  const label = { [PART_OF_LABEL]: applySetId(set) }
  const marked = objects.map((object) => ({
    object: { ...object, metadata: { ...object.metadata, labels: { ...object.metadata.labels, ...label } } },
  }))
  await saveApplySet({ kube }, addPlannedMembers(set, objects.map(identityOf)), form, { fieldManager })
  const report = await applyObjects({ kube, clock }, marked, { fieldManager, dryRun: false })
  expect(report.ok).toBe(true)
  const present = report.outcomes.map(({ uid }, index) => ({ ...identityOf(objects[index] as KubeObject), ...(uid ? { uid } : {}) }))
  const after = keepMembers(set, present)
  await saveApplySet({ kube }, after, form, { fieldManager })
  return after
}

async function pruneTo(set: ApplySet, desired: readonly KubeObject[]) {
  const { members, incomplete } = await listMembers({ kube, clock }, set)
  expect(incomplete).toEqual([])
  const rules = {
    desired: new Set(desired.map((object) => identityKey(identityOf(object)))),
    labels: { [PART_OF_LABEL]: applySetId(set) },
    inventory: set.members,
    fieldManager,
  }
  const verdicts = members.map((object) => ({ object, verdict: judgePrune(object, rules) }))
  const outcomes = await pruneObjects(
    { kube, clock },
    verdicts.filter(({ verdict }) => verdict.do === 'delete').map(({ object }) => object),
  )
  const kept = verdicts.flatMap(({ object, verdict }) => (verdict.do === 'keep' ? [[nameKey(object.metadata), verdict.why] as const] : []))
  return { outcomes, kept: Object.fromEntries(kept) }
}

const newSet = (namespace: string): ApplySet => emptyApplySet({ name: `stack-${randomBytes(4).toString('hex')}`, namespace })

test('prune keeps copies, objects of controllers and newer objects of the same name', async () => {
  const namespace = await at.namespace()
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web', namespace, labels: { app: 'web' } },
    spec: { ports: [{ port: 80 }], selector: { app: 'web' } },
  }
  const objects = [
    configMap(namespace, 'stays'),
    configMap(namespace, 'goes'),
    configMap(namespace, 'remade'),
    configMap(namespace, 'kept', {}, {}),
    service,
  ]
  const set = await applyAs(newSet(namespace), objects)
  const label = { [PART_OF_LABEL]: applySetId(set) }
  await kube.create(configMap(namespace, 'copy', {}, label))
  await kube.delete({ ...CONFIG_MAP, namespace, name: 'remade' })
  const remade = await kube.create(configMap(namespace, 'remade', {}, label))
  const goes = await kube.get({ ...CONFIG_MAP, namespace, name: 'goes' })
  // A controller that copies labels onto what it makes, as the one of EndpointSlices does.
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'goes', uid: goes.metadata.uid ?? '', controller: true }
  const child = await kube.create({
    ...configMap(namespace, 'child', {}, label),
    metadata: { name: 'child', namespace, labels: label, ownerReferences: [owner] },
  })
  const withChild = keepMembers(set, [...set.members, { ...identityOf(child), uid: child.metadata.uid ?? '' }])

  const { outcomes, kept } = await pruneTo(withChild, [configMap(namespace, 'stays'), service])
  expect(outcomes.map(({ ref, action }) => `${ref.name} ${action}`).toSorted()).toEqual(['goes deleted', 'kept deleted'])
  expect(kept).toEqual({
    [`${namespace}/stays`]: 'desired',
    [`${namespace}/web`]: 'desired',
    [`${namespace}/copy`]: 'not_in_inventory',
    [`${namespace}/remade`]: 'other_uid',
    [`${namespace}/child`]: 'has_controller',
  })
  expect((await kube.get({ ...CONFIG_MAP, namespace, name: 'remade' })).metadata.uid).toBe(remade.metadata.uid)
})

test('prune keeps an object that was re-created between plan and delete', async () => {
  const namespace = await at.namespace()
  const planned = await kube.create(configMap(namespace, 'a'))
  await kube.delete(refOf(planned))
  const later = await kube.create(configMap(namespace, 'a'))
  expect((await pruneObjects({ kube, clock }, [planned])).map(({ action }) => action)).toEqual(['deleted'])
  expect((await kube.get(refOf(planned))).metadata.uid).toBe(later.metadata.uid)
})

test("prune deletes a planned member without uid only with the manager's apply entry", async () => {
  const namespace = await at.namespace()
  const set = newSet(namespace)
  const labels = { [PART_OF_LABEL]: applySetId(set) }
  const mine = (await kube.apply(configMap(namespace, 'mine', { x: '1' }, labels), { fieldManager })).object
  const theirs = await kube.create(configMap(namespace, 'theirs', { x: '1' }, labels), { fieldManager: 'kubectl' })
  const rules = {
    desired: new Set<string>(),
    labels,
    inventory: addPlannedMembers(set, [identityOf(mine), identityOf(theirs)]).members,
    fieldManager,
  }
  expect([mine, theirs].map((object) => judgePrune(object, rules))).toEqual([{ do: 'delete' }, { do: 'keep', why: 'other_uid' }])
  const keep = { annotation: 'brokkr.io/prune', value: 'disabled' }
  const kept = { ...mine, metadata: { ...mine.metadata, annotations: { 'brokkr.io/prune': 'disabled' } } }
  expect(judgePrune(kept, { ...rules, keep })).toEqual({ do: 'keep', why: 'kept_by_annotation' })
  expect(judgePrune(mine, { ...rules, labels: { ...labels, 'brokkr.io/owner-id': 'me' } })).toEqual({ do: 'keep', why: 'labels_missing' })
})

test('prune deletes in reverse order, waits for finalizers and names them', async () => {
  const id = randomBytes(4).toString('hex')
  const namespace = await at.namespace()
  const crd = widgetDefinition(`g${id}.example.com`)
  const widget = {
    apiVersion: `g${id}.example.com/v1`,
    kind: 'Widget',
    metadata: { name: 'w', namespace, finalizers: ['example.com/wait'] },
  }
  await applyObjects(
    { kube, clock },
    [crd, widget].map((object) => ({ object })),
    { fieldManager },
  )
  const live = await Promise.all([crd, widget].map((object) => kube.get(refOf(object))))
  const first = await pruneObjects({ kube, clock }, live, { phaseWaitMs: 100 })
  expect(first.map(({ ref, action, detail }) => [ref.kind, action, detail])).toEqual([
    ['Widget', 'going', 'example.com/wait'],
    ['CustomResourceDefinition', 'waiting', undefined],
  ])
  await kube.patch(refOf(widget), { type: 'merge', body: { metadata: { finalizers: null } } })
  const held = await pruneObjects({ kube, clock }, live, { hold: ({ kind }) => (kind === 'Widget' ? undefined : 'foreign_content') })
  expect(held.map(({ action, detail }) => [action, detail])).toEqual([
    ['deleted', undefined],
    ['held', 'foreign_content'],
  ])
  const last = await pruneObjects({ kube, clock }, live)
  expect(last.map(({ action }) => action)).toEqual(['deleted', 'deleted'])
})

test('listMembers lists exactly the members by label, kinds and namespaces', async () => {
  const [one, two] = [await at.namespace(), await at.namespace()]
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: `role-${one}` }, rules: [] }
  const objects = [
    configMap(one, 'a'),
    configMap(two, 'b'),
    { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's', namespace: two } },
    role,
  ]
  const set = await applyAs(newSet(one), objects)
  await kube.create(configMap(one, 'stranger'))
  const { members } = await listMembers({ kube, clock }, set)
  expect(members.map((object) => `${object.kind} ${nameKey(object.metadata)}`).toSorted()).toEqual(
    objects.map((object) => `${object.kind} ${nameKey(object.metadata)}`).toSorted(),
  )
  expect(await readApplySet({ kube }, set, form)).toEqual({ ...set, resourceVersion: expect.any(String) as string })
  await kube.delete(refOf(role))
})

test('a kind counts as absent only with readable CRDs and a group that does not list it', async () => {
  const namespace = await at.namespace()
  const set = addPlannedMembers(newSet(namespace), [
    { group: '', kind: 'ConfigMap', namespace, name: 'a' },
    { group: 'gone.example.com', kind: 'Nothing', namespace, name: 'a' },
  ])
  expect((await listMembers({ kube, clock }, set)).incomplete).toEqual([])
  const forbidden = await listMembers({ kube: kube.with({ as: { user: 'nobody' } }), clock }, set)
  expect(forbidden.incomplete.map(({ kind, failure }) => [kind.kind, failure.code])).toEqual([
    ['Nothing', 'missing_kind'],
    ['ConfigMap', 'forbidden'],
  ])
})

test('listApplySets returns parents by label and foreign ones as errors', async () => {
  const namespace = await at.namespace()
  const labelled = { ...form, labels: { 'brokkr.io/owner-id': 'me' } }
  const set = newSet(namespace)
  await saveApplySet({ kube }, set, labelled, { fieldManager })
  await kube.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'other', namespace, labels: { 'brokkr.io/owner-id': 'me' } } })
  const { sets, unreadable } = await listApplySets({ kube }, { namespace, labels: { 'brokkr.io/owner-id': 'me' } }, labelled)
  expect([sets.map(({ name }) => name), unreadable.map(({ name }) => name)]).toEqual([[set.name], ['other']])
  await removeApplySet({ kube }, set)
  await removeApplySet({ kube }, set)
  expect(await readApplySet({ kube }, set, form)).toBeUndefined()
})

test('prune keeps Endpoints and EndpointSlices of a member Service', async () => {
  const namespace = await at.namespace()
  const service = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'web', namespace },
    spec: { ports: [{ port: 80 }], selector: { app: 'web' } },
  }
  const set = await applyAs(newSet(namespace), [service, configMap(namespace, 'goes')])
  const slices = { apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' }
  const slice = await waitFor('the slice of the service', async () => (await kube.list(slices, { namespace })).items[0])
  // The whole set is told to hold slices too, the worst case: their label is a copy of the Service's.
  const wide = addPlannedMembers(set, [identityOf(slice)])
  const { outcomes } = await pruneTo(wide, [service])
  expect(outcomes.map(({ ref }) => ref.name)).toEqual(['goes'])
  expect((await kube.get({ ...slices, namespace, name: slice.metadata.name })).metadata.uid).toBe(slice.metadata.uid)
})
