import { randomBytes, randomUUID } from 'node:crypto'
import { applySetId, decodeApplySet, type KubeObject } from '@brokkr/kube'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { CONFIG_MAP, configMap, described, type ReconcileWorld, reconcileWorld, revision } from '../test-parts/reconcile-world.ts'
import type { ApplyTask } from './apply/apply-task.ts'
import type { ReconcileDeps } from './deps.ts'
import type { Outcome } from './outcome.ts'
import { removeStack } from './prune/remove-stack.ts'
import { reconcileStack } from './reconcile-stack.ts'

let world: ReconcileWorld
let namespace: string
let stackId: string
const signal = new AbortController().signal
beforeAll(async () => {
  world = await reconcileWorld(await cluster({ controllers: false }))
})
beforeEach(async () => {
  namespace = await world.at.namespace()
  stackId = newStack()
  world.writes.length = 0
  world.onWrite = () => undefined
})
function newStack(): string {
  const id = randomUUID()
  world.stackIds.add(id)
  return id
}

const map = (name: string, data: Record<string, unknown> = {}, metadata: object = {}) => configMap(namespace, name, data, metadata)
const apply = (task: ApplyTask, deps: ReconcileDeps = world.deps) => reconcileStack(deps, task, signal)
const remove = (id = stackId, deps = world.deps) => removeStack(deps, id, signal)
const find = (name: string) => world.kube.find({ ...CONFIG_MAP, namespace, name })
const parentOf = (id = stackId) => world.kube.find({ apiVersion: 'v1', kind: 'Secret', namespace: world.own, name: `brokkr-stack-${id}` })
const operations = ({ objects }: Outcome) => Object.fromEntries(objects.map(({ name, operation }) => [name, operation]))
const problem = (outcome: Outcome) => ('problem' in outcome ? outcome.problem : undefined)
const names = async () =>
  (await world.kube.list(CONFIG_MAP, { namespace })).items
    .map(({ metadata }) => metadata.name)
    .filter((name) => name !== 'kube-root-ca.crt')

async function applied(rev: number, objects: readonly object[], deps?: ReconcileDeps): Promise<Outcome> {
  const outcome = await apply(revision(stackId, rev, objects), deps)
  expect(problem(outcome)).toBeUndefined()
  return outcome
}

test('a stack is applied with ownership metadata and an ApplySet parent', async () => {
  const task = revision(stackId, 7, [map('a', { x: '1' }), map('b')])
  const outcome = await apply(task)
  expect(outcome).toMatchObject({ phase: 'applied', isNew: true, event: { type: 'APPLIED' } })
  expect(operations(outcome)).toEqual({ a: 'created', b: 'created' })
  const [a, parent] = [await find('a'), await parentOf()]
  const setId = applySetId({ name: `brokkr-stack-${stackId}`, namespace: world.own })
  expect(a?.metadata.labels).toMatchObject({
    'brokkr.io/stack': stackId,
    'brokkr.io/owner-id': world.agentId,
    'brokkr.io/deployment-object-id': task.object.id,
    'applyset.kubernetes.io/part-of': setId,
  })
  expect(parent).toMatchObject({
    type: 'brokkr.io/stack',
    metadata: {
      labels: { 'applyset.kubernetes.io/id': setId },
      annotations: {
        'applyset.kubernetes.io/contains-group-kinds': 'ConfigMap',
        'applyset.kubernetes.io/additional-namespaces': namespace,
      },
    },
  })
  const set = decodeApplySet(parent as KubeObject, { tooling: 'brokkr/v1' })
  expect(set.members).toContainEqual({ group: '', kind: 'ConfigMap', namespace, name: 'a', uid: a?.metadata.uid })
  expect(JSON.parse(set.data['state.json']?.toString() ?? '')).toMatchObject({
    version: 1,
    stack_id: stackId,
    deployment_object_id: task.object.id,
    sequence_id: 7,
    rev: 7,
  })
  const members = await world.kube.list(CONFIG_MAP, { labelSelector: `applyset.kubernetes.io/part-of=${setId}` })
  expect(members.items.map(({ metadata }) => metadata.name).toSorted()).toEqual(['a', 'b'])
})

test('unchanged members are not written in a second attempt, after a restart or an update', async () => {
  const objects = [map('a', { x: '1' }), map('b')]
  const task = revision(stackId, 1, objects)
  await apply(task)
  const before = [await find('a'), await find('b'), await parentOf()].map((object) => object?.metadata.resourceVersion)
  world.writes.length = 0
  for (const deps of [world.deps, world.restarted()]) {
    expect(await apply(task, deps)).toMatchObject({ phase: 'applied', isNew: false, objects: [] })
    expect(world.writes).toEqual([])
  }
  expect([await find('a'), await find('b'), await parentOf()].map((object) => object?.metadata.resourceVersion)).toEqual(before)

  expect(await applied(2, objects.toReversed())).toMatchObject({ isNew: true, event: { type: 'UPDATED' } })
  expect(world.writes.map(({ ref }) => ref.name)).toEqual([`brokkr-stack-${stackId}`])
  expect((await find('a'))?.metadata.resourceVersion).toBe(before[0])
})

test('a new deployment object updates, creates and prunes members', async () => {
  await applied(1, [map('same', { x: '1' }), map('changes', { x: '1' }), map('goes')])
  const [same, changes] = [await find('same'), await find('changes')]
  world.writes.length = 0
  const outcome = await applied(2, [map('same', { x: '1' }), map('changes', { x: '2' }), map('comes')])
  expect(operations(outcome)).toEqual({ changes: 'updated', comes: 'created', goes: 'deleted' })
  expect(described(world.writes)).toEqual(['apply ConfigMap changes', 'apply ConfigMap comes', 'delete ConfigMap goes'])
  expect((await find('same'))?.metadata.resourceVersion).toBe(same?.metadata.resourceVersion)
  expect((await find('changes'))?.metadata.uid).toBe(changes?.metadata.uid)
  expect(await names()).toEqual(['changes', 'comes', 'same'])
})

test('one object that the API server rejects prevents all writes', async () => {
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'wrong', namespace }, spec: { ports: [{ port: 0 }] } }
  const outcome = await apply(revision(stackId, 1, [map('a'), service, map('b')]))
  expect(problem(outcome)).toMatchObject({ phase: 'failed', code: 'invalid', message: expect.stringContaining('wrong') })
  expect(described(world.writes)).toEqual([])
  expect(await names()).toEqual([])
})

test('an API server error is reported without the Secret value that it quotes', async () => {
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's', namespace }, data: { key: 'canary-that-is-not-base64!' } }
  const outcome = await apply(revision(stackId, 1, [secret]))
  expect(problem(outcome)?.phase).toBe('failed')
  expect(JSON.stringify(outcome)).not.toContain('canary')
})

test('a failure in a later phase prunes nothing and keeps all members in the inventory', async () => {
  await applied(1, [map('old')])
  const deployment = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'wrong', namespace }, spec: {} }
  const deps = { ...world.deps, settings: { ...world.deps.settings, dryRun: false } }
  const outcome = await apply(revision(stackId, 2, [map('new'), deployment]), deps)
  expect(problem(outcome)).toMatchObject({ phase: 'failed', code: 'invalid' })
  expect(operations(outcome)).toMatchObject({ new: 'created', wrong: 'failed' })
  expect(await names()).toEqual(['new', 'old'])
  await applied(3, [map('old')])
  expect(await names()).toEqual(['old'])
})

test('a foreign object stays unchanged and is adopted only on request', async () => {
  const foreign = await world.kube.create(map('taken', { x: 'theirs' }))
  for (const data of [{ x: 'ours' }, { y: 'ours' }, { x: 'theirs' }]) {
    const outcome = await apply(revision(stackId, 1, [map('taken', data), map('b')]))
    expect(problem(outcome)).toMatchObject({ code: 'foreign_object', message: expect.stringContaining('brokkr.io/adopt') })
  }
  expect(await find('taken')).toEqual(foreign)
  expect(await find('b')).toBeUndefined()
  await applied(2, [map('taken', { x: 'ours' }, { annotations: { 'brokkr.io/adopt': 'true' } }), map('b')])
  expect(await find('taken')).toMatchObject({ data: { x: 'ours' }, metadata: { uid: foreign.metadata.uid } })
})

test('an object of another stack is rejected; after adoption its first stack keeps it', async () => {
  const first = stackId
  await applied(1, [map('shared'), map('own')])
  const uid = (await find('shared'))?.metadata.uid
  const second = newStack()
  const refused = await apply(revision(second, 1, [map('shared')]))
  expect(problem(refused)).toMatchObject({ code: 'owned_by_other_stack', message: expect.stringContaining(first) })
  const adopted = await apply(revision(second, 2, [map('shared', {}, { annotations: { 'brokkr.io/adopt': 'true' } })]))
  expect(problem(adopted)).toBeUndefined()
  expect((await remove(first)).phase).toBe('removed')
  expect((await find('shared'))?.metadata).toMatchObject({ uid, labels: { 'brokkr.io/stack': second } })
  expect(await find('own')).toBeUndefined()
})

test('objects in the wrong order are applied in one attempt and removed again', async () => {
  const group = `g${randomBytes(4).toString('hex')}.example.com`
  const made = `made-${randomBytes(4).toString('hex')}`
  const crd = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `widgets.${group}` },
    spec: {
      group,
      scope: 'Namespaced',
      names: { kind: 'Widget', plural: 'widgets', singular: 'widget', listKind: 'WidgetList' },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } },
        },
      ],
    },
  }
  const widget = { apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w', namespace: made } }
  const outcome = await applied(1, [widget, configMap(made, 'a'), crd, { apiVersion: 'v1', kind: 'Namespace', metadata: { name: made } }])
  expect(new Set(Object.values(operations(outcome)))).toEqual(new Set(['created']))
  expect(await world.kube.find({ apiVersion: `${group}/v1`, kind: 'Widget', namespace: made, name: 'w' })).toBeDefined()

  const other = newStack()
  expect(problem(await apply(revision(other, 1, [configMap(made, 'of-another')])))).toBeUndefined()
  const held = problem(await remove())
  expect(held).toMatchObject({ phase: 'pending', code: 'removing', message: expect.stringContaining('foreign_content') })
  expect(await world.kube.find({ ...CONFIG_MAP, namespace: made, name: 'of-another' })).toBeDefined()
  expect((await remove(other)).phase).toBe('removed')
  // Nothing finishes the namespace here: no controllers run, so it stays Terminating and the stack says so.
  expect(problem(await remove())).toMatchObject({ code: 'removing', message: expect.stringContaining(made) })
})

test('a removal deletes members and parent, not copies, new objects or kept ones', async () => {
  await applied(1, [map('a'), map('remade'), map('kept', {}, { annotations: { 'brokkr.io/prune': 'disabled' } })])
  const { labels = {} } = (await find('a'))?.metadata ?? {}
  await world.kube.create(map('copy', {}, { labels }))
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'remade' })
  await world.kube.create(map('remade', {}, { labels }))
  expect(await remove()).toMatchObject({ phase: 'removed', last: { stack_id: stackId, sequence_id: 1 } })
  expect(await names()).toEqual(['copy', 'kept', 'remade'])
  expect(await parentOf()).toBeUndefined()
  expect(await remove()).toMatchObject({ phase: 'removed', last: null, objects: [] })
})

test('an object that another writer created again is not pruned', async () => {
  await applied(1, [map('stays'), map('remade')])
  const { labels = {} } = (await find('remade'))?.metadata ?? {}
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'remade' })
  const later = await world.kube.create(map('remade', {}, { labels }))
  await applied(2, [map('stays')])
  expect((await find('remade'))?.metadata.uid).toBe(later.metadata.uid)
})

test('a blocking finalizer is reported, and the removal ends after it is cleared', async () => {
  await applied(1, [map('held', {}, { finalizers: ['example.com/wait'] })])
  const outcome = problem(await remove())
  expect(outcome).toMatchObject({ phase: 'pending', code: 'removing', message: expect.stringMatching(/held.*example\.com\/wait/) })
  expect(await parentOf()).toBeDefined()
  await world.kube.patch({ ...CONFIG_MAP, namespace, name: 'held' }, { type: 'merge', body: { metadata: { finalizers: null } } })
  expect((await remove()).phase).toBe('removed')
})

test('a pruned member stays in the inventory while a finalizer blocks it', async () => {
  await applied(1, [map('stays'), map('held', {}, { finalizers: ['example.com/wait'] })])
  const second = revision(stackId, 2, [map('stays')])
  for (const deps of [world.deps, world.restarted()])
    expect(problem(await apply(second, deps))).toMatchObject({
      phase: 'pending',
      code: 'removing',
      message: expect.stringContaining('held'),
    })
  await world.kube.patch({ ...CONFIG_MAP, namespace, name: 'held' }, { type: 'merge', body: { metadata: { finalizers: null } } })
  expect(problem(await apply(second))).toBeUndefined()
  expect(await names()).toEqual(['stays'])
})

test('a drifted member is applied again only with its changed fields', async () => {
  const task = revision(stackId, 1, [map('a', { x: '1' }), map('b', { x: '1' })])
  await apply(task)
  await world.kube.patch(
    { ...CONFIG_MAP, namespace, name: 'a' },
    { type: 'merge', body: { data: { x: 'drifted' } } },
    { fieldManager: 'kubectl-edit' },
  )
  world.writes.length = 0
  // The list itself shows that somebody wrote after us, also to an agent that remembers nothing.
  expect(operations(await apply(task, world.restarted()))).toEqual({ a: 'updated' })
  expect((await find('a'))?.data).toEqual({ x: '1' })
  expect(described(world.writes)).toEqual(['apply ConfigMap a'])
})

test('a stack without drift healing is not changed while its object is applied', async () => {
  const task = revision(stackId, 1, [map('a', { x: '1' })], { drift: 'report' })
  await apply(task)
  await world.kube.patch({ ...CONFIG_MAP, namespace, name: 'a' }, { type: 'merge', body: { data: { x: 'drifted' } } })
  expect(await apply(task)).toMatchObject({ phase: 'applied', isNew: false })
  expect((await find('a'))?.data).toEqual({ x: 'drifted' })
})

test('a stack cannot write to the namespace of the agent or to another parent', async () => {
  const outcome = await apply(
    revision(stackId, 1, [
      configMap(world.own, 'a'),
      { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'brokkr-agent-state', namespace: world.own } },
    ]),
  )
  expect(problem(outcome)).toMatchObject({ code: 'outside_scope' })
  expect(world.writes).toEqual([])
})

test('a parent of another tool is rejected and not changed', async () => {
  const name = `brokkr-stack-${stackId}`
  const foreign = await world.kube.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace: world.own } })
  await expect(apply(revision(stackId, 1, [map('a')]))).rejects.toThrow('It is left as it is')
  expect(await parentOf()).toEqual(foreign)
  expect(await find('a')).toBeUndefined()
})

test('an attempt aborted at any write leaks nothing and continues from there', async () => {
  const first = [map('a', { x: '1' }), map('b', { x: '1' }), map('c', { x: '1' })]
  const second = [map('a', { x: '2' }), map('d')]
  let points = 0
  for (let cut = 1; ; cut++) {
    stackId = newStack()
    const controller = new AbortController()
    let writes = 0
    world.onWrite = () => {
      writes += 1
      if (writes === cut) controller.abort(new Error('cut'))
    }
    const outcomes = await Promise.allSettled([
      reconcileStack(world.restarted(), revision(stackId, 1, first), controller.signal).then(() =>
        reconcileStack(world.restarted(), revision(stackId, 2, second), controller.signal),
      ),
    ])
    world.onWrite = () => undefined
    if (outcomes[0].status === 'fulfilled' && writes < cut) break
    points++
    // A new process takes over with the newer revision, and then everything goes.
    const deps = world.restarted()
    await applied(3, second, deps)
    expect(await names()).toEqual(['a', 'd'])
    expect((await remove(stackId, deps)).phase).toBe('removed')
    expect(await names()).toEqual([])
    expect(await parentOf()).toBeUndefined()
  }
  expect(points).toBeGreaterThanOrEqual(9)
})
