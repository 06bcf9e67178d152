import { applySetId, type KubeObject } from '@brokkr/kube'
import { cluster, privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AgentWorld, manifest, startAgentWorld } from '../../test-parts/agent-world.ts'
import { refuse } from '../../test-parts/api-recorder.ts'
import { del, marker, put, stackId } from '../../test-parts/frames.ts'
import {
  CONFIG_MAP,
  configMap,
  deployment,
  newGroup,
  type ReconcileWorld,
  reconcileWorld,
  widgetDefinition,
} from '../../test-parts/reconcile-world.ts'

let at: Awaited<ReturnType<typeof cluster>>
let world: ReconcileWorld
let namespace: string
let agent: AgentWorld
beforeAll(async () => {
  at = await cluster()
})
beforeEach(async () => {
  world = await reconcileWorld(at)
  namespace = await at.namespace()
  agent = await startAgentWorld(world)
})
afterEach(() => agent.stop())

const map = (name: string, data: Record<string, unknown> = {}, metadata: object = {}) => configMap(namespace, name, data, metadata)
const find = (name: string) => world.kube.find({ ...CONFIG_MAP, namespace, name })
const names = async () =>
  (await world.kube.list(CONFIG_MAP, { namespace })).items
    .map(({ metadata }) => metadata.name)
    .filter((name) => name !== 'kube-root-ca.crt')
/** Names of what the API server was asked to delete, the agent's own records apart. */
const deleted = () =>
  world.recorder
    .deletes()
    .filter((path) => !path.includes(`/namespaces/${world.own}/`))
    .map((path) => path.split('/').at(-1) ?? '')
    .toSorted()
const claim = (name: string) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name, namespace },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
})

test('[A4] one ConfigMap is pruned; half of twenty, or a PVC, waits for approval', async () => {
  const maps = Array.from({ length: 20 }, (_, index) => map(`m${String(index).padStart(2, '0')}`))
  agent.list(put(1, 1, manifest(...maps)), put(2, 1, manifest(map('other'), claim('data'))))
  await Promise.all([agent.reported(1, 'applied', 1), agent.reported(2, 'applied', 1)])
  const before = await find('m01')
  agent.live(put(1, 2, manifest(...maps.slice(1))))
  await agent.reported(1, 'applied', 2)
  expect(deleted()).toEqual(['m00'])
  expect((await find('m01'))?.metadata.uid).toBe(before?.metadata.uid)

  agent.live(put(1, 3, manifest(...maps.slice(11), map('new'))), put(2, 2, manifest(map('other', { x: '2' }))))
  const held = await agent.reported(1, 'held', 3)
  expect(held).toMatchObject({ code: 'prune_guard', message: expect.stringContaining('10 of 19') })
  expect(await agent.reported(2, 'held', 2)).toMatchObject({ code: 'prune_guard', message: expect.stringContaining('data') })
  // Applies go on all the same, and looking again does not wear the guard down.
  expect(await find('new')).toBeDefined()
  expect((await find('other'))?.data).toEqual({ x: '2' })
  await agent.stop()
  agent = await startAgentWorld(world)
  agent.list(put(1, 3, manifest(...maps.slice(11), map('new'))), put(2, 2, manifest(map('other', { x: '2' }))))
  await Promise.all([agent.reported(1, 'held', 3), agent.reported(2, 'held', 2)])
  expect(deleted()).toEqual(['m00'])

  // An approval names a sequence: that of an earlier one lets nothing pass.
  agent.deps.approvals.take([{ stack_id: stackId(1), sequence_id: 2 }])
  agent.controller.retry(stackId(1))
  const looks = agent.ended.length
  await waitFor('another look', () => agent.ended.length > looks)
  expect(deleted()).toEqual(['m00'])
  for (const id of agent.deps.approvals.take([
    { stack_id: stackId(1), sequence_id: 3 },
    { stack_id: stackId(2), sequence_id: 2 },
    { removals: 7 },
  ]))
    agent.controller.retry(id as never)
  await Promise.all([agent.reported(1, 'applied', 3), waitFor('the claim to go', () => deleted().includes('data'))])
  expect(await names()).toEqual([...maps.slice(11).map(({ metadata }) => metadata.name), 'new', 'other'])
})

test('a crash does not raise the base of the prune guard for a held prune', async () => {
  const old = Array.from({ length: 10 }, (_, index) => map(`old${index}`))
  const fresh = Array.from({ length: 40 }, (_, index) => map(`new${index}`))
  agent.list(put(1, 1, manifest(...old)))
  await agent.reported(1, 'applied', 1)
  // The agent dies after the apply and before the parent says that the revision is in force.
  let saves = 0
  world.recorder.intercept((request, response) => {
    const isSave = request.method === 'PATCH' && request.path.endsWith(`/secrets/brokkr-stack-${stackId(1)}`)
    return isSave && ++saves > 1 ? refuse(response, 403, 'Forbidden', 'cannot patch resource "secrets"') : false
  })
  agent.live(put(1, 2, manifest(...old.slice(6), ...fresh)))
  await agent.reported(1, 'failed', 2)
  await agent.stop()
  world.recorder.intercept(null)
  agent = await startAgentWorld(world)
  agent.list(put(1, 2, manifest(...old.slice(6), ...fresh)))
  await agent.reported(1, 'held', 2)
  expect(deleted()).toEqual([])
})

test('[A5] a failure in a later phase deletes and prunes nothing', async () => {
  agent.list(put(1, 1, manifest(map('old'), map('stays'))))
  await agent.reported(1, 'applied', 1)
  // Refused at the write, though the dry run passed: what fails in phase 5 fails after phase 4 stands.
  world.recorder.intercept((request, response) => {
    const isWrite = request.method === 'PATCH' && request.path.endsWith('/deployments/web') && !request.isDryRun
    return isWrite && refuse(response, 422, 'Invalid', 'Deployment.apps "web" is invalid: spec: made to fail')
  })
  agent.live(put(1, 2, manifest(map('new'), map('stays'), deployment(namespace, 'web', 0))))
  const row = await agent.reported(1, 'failed', 2)
  expect(row).toMatchObject({ code: 'invalid', message: expect.stringContaining('applied 2 of 3') })
  expect(await names()).toEqual(['new', 'old', 'stays'])
  expect(deleted()).toEqual([])
  world.recorder.intercept(null)
  await agent.reported(1, 'applied', 2)
  expect(deleted()).toEqual(['old'])
})

test('[A6] a deletion marker deletes all members, applies nothing, then reports DELETED', async () => {
  agent.list(put(1, 1, manifest(map('a'), map('b', {}, { finalizers: ['example.com/wait'] }))))
  await agent.reported(1, 'applied', 1)
  const text = manifest(map('never'))
  const { object, ...frame } = put(1, 2, text)
  if (object === null) throw new Error('a put without an object')
  agent.live({ ...frame, object: { ...object, is_deletion_marker: true } })
  await agent.reported(1, 'pending', 2, 'removing')
  expect(agent.events('DELETED')).toEqual([])
  expect(await find('a')).toBeUndefined()
  await world.kube.patch({ ...CONFIG_MAP, namespace, name: 'b' }, { type: 'merge', body: { metadata: { finalizers: null } } })
  await agent.event('DELETED')
  expect(await names()).toEqual([])
  expect(world.recorder.writes().filter((write) => write.includes('never'))).toEqual([])
})

test('[A8] a removal reports the finalizer that blocks an object', async () => {
  agent.list(put(1, 1, manifest(map('held', {}, { finalizers: ['example.com/wait'] }))))
  await agent.reported(1, 'applied', 1)
  agent.live(marker(1, 2))
  const row = await agent.reported(1, 'pending', 2, 'removing')
  expect(row.message).toMatch(/ConfigMap .*\/held.*example\.com\/wait/)
  await world.kube.patch({ ...CONFIG_MAP, namespace, name: 'held' }, { type: 'merge', body: { metadata: { finalizers: null } } })
  await agent.event('DELETED')
  await agent.reported(1, 'removed', 2)
})

test('[A9] a stack that no longer matches is removed; objects of other stacks stay', async () => {
  agent.list(put(1, 1, manifest(map('a1'), map('a2'))), put(2, 1, manifest(map('b1'))))
  await Promise.all([agent.reported(1, 'applied', 1), agent.reported(2, 'applied', 1)])
  const uid = (await find('b1'))?.metadata.uid
  agent.live(del(1, 1))
  await agent.event('DELETED')
  expect(deleted()).toEqual(['a1', 'a2'])
  expect((await find('b1'))?.metadata.uid).toBe(uid)
  expect(await names()).toEqual(['b1'])
})

test('[A21] a copy with all labels under another name survives prune and removal', async () => {
  agent.list(put(1, 1, manifest(map('a'), map('goes'), map('stays'))))
  await agent.reported(1, 'applied', 1)
  const { labels = {}, annotations = {} } = (await find('goes'))?.metadata ?? {}
  const copy = await world.kube.create(map('copy', {}, { labels, annotations }))
  agent.live(put(1, 2, manifest(map('a'), map('stays'))))
  await agent.reported(1, 'applied', 2)
  agent.live(marker(1, 3))
  await agent.event('DELETED')
  expect(deleted()).toEqual(['a', 'goes', 'stays'])
  expect((await find('copy'))?.metadata.uid).toBe(copy.metadata.uid)
})

test('[A22] endpoints that controllers create for a managed Service survive a prune', async () => {
  const service = (name: string) => ({
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name, namespace },
    spec: { selector: { app: 'web' }, ports: [{ port: 80 }] },
  })
  // An EndpointSlice of our own makes its kind one that is listed and pruned.
  const own = {
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { name: 'own', namespace },
    addressType: 'IPv4',
    endpoints: [],
  }
  const ownEndpoints = { apiVersion: 'v1', kind: 'Endpoints', metadata: { name: 'own', namespace } }
  agent.list(put(1, 1, manifest(service('web'), own, ownEndpoints, map('a'), map('b'), map('goes'))))
  await agent.reported(1, 'applied', 1)
  const made = async () => {
    const slices = await world.kube.list({ apiVersion: 'discovery.k8s.io/v1', kind: 'EndpointSlice' }, { namespace })
    const endpoints = await world.kube.list({ apiVersion: 'v1', kind: 'Endpoints' }, { namespace })
    return [...slices.items, ...endpoints.items].filter(({ metadata }) => metadata.name.startsWith('web'))
  }
  const before = await waitFor('what the controllers make', async () => {
    const all = await made()
    return all.length >= 2 && all.every(({ metadata }) => metadata.labels?.['applyset.kubernetes.io/part-of']) ? all : undefined
  })
  const uids = (objects: readonly KubeObject[]) => objects.map(({ metadata }) => metadata.uid ?? '').toSorted()
  agent.live(put(1, 2, manifest(service('web'), own, ownEndpoints, map('a'), map('b'))))
  await agent.reported(1, 'applied', 2)
  expect(deleted()).toEqual(['goes'])
  expect(uids(await made())).toEqual(uids(before))
})

test('[A23] an object that a user created again between plan and delete survives', async () => {
  agent.list(put(1, 1, manifest(map('a'), map('b'), map('remade'))))
  await agent.reported(1, 'applied', 1)
  const before = await find('remade')
  let later: KubeObject | undefined
  let isRemaking = false
  // The delete is on its way when the user acts: it is held back until the new object stands.
  world.recorder.intercept(async (request) => {
    if (request.method !== 'DELETE' || !request.path.endsWith('/configmaps/remade') || isRemaking) return false
    isRemaking = true
    await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'remade' })
    later = await world.kube.create(map('remade', { x: 'theirs' }, { labels: before?.metadata.labels ?? {} }))
    return false
  })
  agent.live(put(1, 2, manifest(map('a'), map('b'))))
  await agent.reported(1, 'applied', 2)
  expect(isRemaking).toBe(true)
  expect((await find('remade'))?.metadata.uid).toBe(later?.metadata.uid)
  expect((await find('remade'))?.data).toEqual({ x: 'theirs' })
})

test('[A24] an object adopted by another stack survives when its first stack drops it', async () => {
  agent.list(put(1, 1, manifest(map('shared'), map('a'), map('b'))))
  await agent.reported(1, 'applied', 1)
  const uid = (await find('shared'))?.metadata.uid
  agent.live(put(2, 1, manifest(map('shared', { x: '2' }, { annotations: { 'brokkr.io/adopt': 'true' } }))))
  await agent.reported(2, 'applied', 1)
  agent.live(put(1, 2, manifest(map('a'), map('b'))))
  await agent.reported(1, 'applied', 2)
  expect((await find('shared'))?.metadata).toMatchObject({ uid, labels: { 'brokkr.io/stack': stackId(2) } })
  agent.live(marker(1, 3))
  await agent.event('DELETED')
  expect((await find('shared'))?.metadata.uid).toBe(uid)
  expect(deleted()).toEqual(['a', 'b'])
})

test('[A51] the label selector over kinds and namespaces of the parent lists all members', async () => {
  const second = await at.namespace()
  agent.list(put(1, 1, manifest(map('a'), configMap(second, 'b'), deployment(namespace, 'web', 0))), put(2, 1, manifest(map('other'))))
  await Promise.all([agent.reported(1, 'applied', 1), agent.reported(2, 'applied', 1)])
  const name = `brokkr-stack-${stackId(1)}`
  const parent = await world.kube.get({ apiVersion: 'v1', kind: 'Secret', namespace: world.own, name })
  const { annotations = {} } = parent.metadata
  const kinds = (annotations['applyset.kubernetes.io/contains-group-kinds'] ?? '').split(',')
  const namespaces = (annotations['applyset.kubernetes.io/additional-namespaces'] ?? '').split(',')
  expect([kinds, namespaces]).toEqual([['ConfigMap', 'Deployment.apps'], [namespace, second].toSorted()])
  const labelSelector = `applyset.kubernetes.io/part-of=${applySetId({ name, namespace: world.own })}`
  const apiVersions: Record<string, string> = { ConfigMap: 'v1', 'Deployment.apps': 'apps/v1' }
  const found: string[] = []
  for (const kind of kinds)
    for (const where of namespaces) {
      const { items } = await world.kube.list(
        { apiVersion: apiVersions[kind] ?? '', kind: kind.split('.')[0] ?? '' },
        { namespace: where, labelSelector },
      )
      found.push(...items.map(({ metadata }) => `${kind} ${metadata.namespace}/${metadata.name}`))
    }
  expect(found.toSorted()).toEqual([`ConfigMap ${namespace}/a`, `ConfigMap ${second}/b`, `Deployment.apps ${namespace}/web`].toSorted())
})

test('a member missing in discovery stays in the inventory until its CRD is deleted', async () => {
  const group = newGroup()
  const widget = (name: string) => ({ apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name, namespace } })
  await world.kube.create(widgetDefinition(group))
  agent.list(put(2, 1, manifest(widget('w'), map('a'), map('b'))))
  await agent.reported(2, 'applied', 1)
  // As while its registration is made anew: the group is not even named.
  const isMissing = { is: true }
  world.recorder.intercept((request, response) => {
    if (request.path !== '/apis' || !isMissing.is) return false
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify({ kind: 'APIGroupDiscoveryList', apiVersion: 'apidiscovery.k8s.io/v2', items: ownGroups }))
    return true
  })
  await agent.deps.kube.discovery.refresh()
  agent.live(put(2, 2, manifest(map('a'), map('b'))))
  await agent.reported(2, 'applied', 2)
  expect(deleted()).toEqual([])
  isMissing.is = false
  await agent.deps.kube.discovery.refresh()
  agent.controller.reconcileAll()
  await waitFor('the widget to go', () => deleted().includes('w'), { limitMs: 60_000 })
  // With its definition the objects of a kind are gone, and nothing waits for them.
  agent.live(put(2, 3, manifest(widget('v'), map('a'))))
  await agent.reported(2, 'applied', 3)
  await world.kube.delete({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', name: `widgets.${group}` })
  agent.live(marker(2, 4))
  await agent.event('DELETED')
})

/** What discovery still names: enough for definitions to be looked at. */
const ownGroups = [
  {
    metadata: { name: 'apiextensions.k8s.io' },
    versions: [
      {
        version: 'v1',
        freshness: 'Current',
        resources: [
          {
            resource: 'customresourcedefinitions',
            responseKind: { group: 'apiextensions.k8s.io', version: 'v1', kind: 'CustomResourceDefinition' },
            scope: 'Cluster',
            verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'],
          },
        ],
      },
    ],
  },
]

test('[A52] kinds of an aggregated API with failed discovery are not pruned, others reconcile', async () => {
  await agent.stop()
  // A plane of its own: a group that does not answer holds up controllers that other tests need.
  const plane = await privateCluster()
  world = await reconcileWorld(plane)
  namespace = await plane.namespace()
  agent = await startAgentWorld(world)
  const group = newGroup()
  const widget = (name: string) => ({ apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name, namespace } })
  agent.list(put(1, 1, manifest(widgetDefinition(group))))
  await agent.reported(1, 'applied', 1)
  const unwatched = { drift: 'off' } as const
  agent.live(put(2, 1, manifest(widget('w'), map('a'), map('b'), map('goes'))), put(3, 1, manifest(widget('v'), map('c')), unwatched))
  await Promise.all([agent.reported(2, 'applied', 1), agent.reported(3, 'applied', 1)])
  const service = `/apis/apiregistration.k8s.io/v1/apiservices/v1.${group}`
  const merge = { contentType: 'application/merge-patch+json' }
  await waitFor('the group to be registered', async () => (await plane.api('GET', service)).status === 200)
  const away = { service: { name: 'away', namespace, port: 443 }, insecureSkipTLSVerify: true }
  const taken = { metadata: { labels: { 'kube-aggregator.kubernetes.io/automanaged': null } }, spec: away }
  expect((await plane.api('PATCH', service, { ...merge, body: taken })).status).toBe(200)
  const isAway = async () => {
    await agent.deps.kube.discovery.refresh()
    return (await agent.deps.kube.discovery.failedGroups()).has(group) && (await plane.api('GET', `/apis/${group}/v1`)).status === 503
  }
  await waitFor('discovery of the group to fail', isAway, { limitMs: 60_000 })
  agent.live(put(2, 2, manifest(map('a', { x: '2' }), map('b'))), put(3, 2, manifest(map('c')), unwatched))
  await Promise.all([agent.reported(2, 'applied', 2), agent.reported(3, 'applied', 2)])
  expect((await find('a'))?.data).toEqual({ x: '2' })
  expect(deleted()).toEqual(['goes'])
  // Nor was it forgotten: once the group answers again, it goes.
  // Whoever takes the registration away gets the one that belongs to the definition back.
  expect((await plane.api('DELETE', service)).status).toBe(200)
  const isBack = async () => {
    await agent.deps.kube.discovery.refresh()
    return !(await agent.deps.kube.discovery.failedGroups()).has(group)
  }
  await waitFor('the group to answer', isBack, { limitMs: 60_000 })
  const resync = () => agent.controller.resync(new AbortController().signal)
  const areGone = async () => (await resync(), deleted().includes('w') && deleted().includes('v'))
  await waitFor('the widgets to go', areGone, { limitMs: 60_000, everyMs: 500 })
  await agent.stop()
  await plane.stop()
}, 180_000)
