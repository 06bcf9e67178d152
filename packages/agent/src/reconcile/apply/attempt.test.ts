import type { KubeObject } from '@brokkr/kube'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AgentOptions, type AgentWorld, manifest, startAgentWorld } from '../../test-parts/agent-world.ts'
import { refuse } from '../../test-parts/api-recorder.ts'
import { put } from '../../test-parts/frames.ts'
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
const again = async (options: AgentOptions) => {
  await agent.stop()
  agent = await startAgentWorld(world, options)
}

test('[A1] objects in the wrong order are applied in one attempt with one report', async () => {
  const group = newGroup()
  const made = `${namespace}-made`
  const widget = { apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w', namespace: made } }
  const bundle = [
    deployment(made, 'web', 0),
    widget,
    widgetDefinition(group),
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: made } },
  ]
  agent.list(put(1, 1, manifest(...bundle)))
  const row = await agent.reported(1, 'applied', 1)
  expect(row.attempts).toBe(1)
  for (const { apiVersion, kind, metadata } of bundle as KubeObject[])
    expect(await world.kube.find({ apiVersion, kind, namespace: metadata.namespace, name: metadata.name })).toBeDefined()
  expect(agent.events().map(({ event_type, status, sequence_id }) => [event_type, status, sequence_id])).toEqual([
    ['APPLIED', 'SUCCESS', 1],
  ])
})

test('[A2] the same sequence by snapshot, frame and resync writes and deletes nothing', async () => {
  const frames = [put(1, 1, manifest(map('a', { x: '1' }), deployment(namespace, 'web', 0)))]
  agent.list(...frames)
  await agent.reported(1, 'applied', 1)
  await waitFor('the controller to have looked at the Deployment', async () => {
    const live = await world.kube.get({ apiVersion: 'apps/v1', kind: 'Deployment', namespace, name: 'web' })
    return live.status?.['observedGeneration'] === 1
  })
  world.recorder.clear()
  for (let round = 0; round < 10; round++) {
    const looks = agent.ended.length
    if (round % 2 === 0) agent.list(...frames)
    else agent.live(...frames)
    agent.controller.reconcileAll()
    await agent.controller.resync(new AbortController().signal)
    await waitFor('a look', () => agent.ended.length > looks)
  }
  expect(world.recorder.requests.filter(({ method, isDryRun }) => method !== 'GET' && !isDryRun)).toEqual([])
  expect(agent.events()).toHaveLength(1)
})

test('[A3] one invalid object of twenty fails the dry run, and none is created', async () => {
  const maps = Array.from({ length: 19 }, (_, index) => map(`m${index}`))
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'wrong', namespace }, spec: { ports: [{ port: 0 }] } }
  agent.list(put(1, 1, manifest(...maps.slice(0, 10), service, ...maps.slice(10))))
  const row = await agent.reported(1, 'failed', 1)
  expect(row).toMatchObject({ code: 'invalid', message: expect.stringContaining('wrong') })
  expect(world.recorder.writes()).toEqual([])
  const left = (await world.kube.list(CONFIG_MAP, { namespace })).items.filter(({ metadata }) => metadata.name.startsWith('m'))
  expect(left).toEqual([])
  expect(world.recorder.requests.filter(({ isDryRun }) => isDryRun).length).toBeGreaterThanOrEqual(20)
})

test('[A19] a foreign object is adopted only if requested and allowed', async () => {
  const foreign = await world.kube.create(map('taken', { x: 'theirs' }))
  const theirs = await world.kube.create(map('theirs', { x: 'theirs' }, { labels: { 'brokkr.io/owner-id': 'another-agent' } }))
  agent.list(put(1, 1, manifest(map('taken', { x: 'ours' }))))
  expect(await agent.reported(1, 'failed', 1)).toMatchObject({ code: 'foreign_object' })
  expect(await find('taken')).toEqual(foreign)
  const adopt = { annotations: { 'brokkr.io/adopt': 'true' } }
  agent.live(put(1, 2, manifest(map('taken', { x: 'ours' }, adopt))), put(2, 1, manifest(map('theirs', { x: 'ours' }, adopt))))
  await agent.reported(1, 'applied', 2)
  expect(await find('taken')).toMatchObject({ data: { x: 'ours' }, metadata: { uid: foreign.metadata.uid } })
  expect(await agent.reported(2, 'failed', 1)).toMatchObject({ code: 'foreign_object' })
  expect(await find('theirs')).toEqual(theirs)
})

test('[A20] the first apply removes a field that a v1 agent wrote and the manifest dropped', async () => {
  const { stack_id } = put(1, 1)
  const annotations = { 'brokkr.io/owner-id': world.agentId, 'k8s.brokkr.io/stack': stack_id }
  await world.kube.apply(map('old', { kept: '1', dropped: '1' }, { annotations }), { fieldManager: 'brokkr-controller', force: true })
  agent.list(put(1, 1, manifest(map('old', { kept: '2' }))))
  await agent.reported(1, 'applied', 1)
  const live = await find('old')
  expect(live?.data).toEqual({ kept: '2' })
  expect(live?.metadata.managedFields?.map(({ manager }) => manager)).not.toContain('brokkr-controller')
})

test('[A25] a custom resource without its CRD is applied when the CRD arrives', async () => {
  // A first retry after ten minutes: within the limit of this test only the arrival can help.
  await again({ retryBaseMs: 600_000, retryMaxMs: 600_000 })
  const group = newGroup()
  agent.list(put(1, 1, manifest({ apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w', namespace } })))
  expect(await agent.reported(1, 'failed', 1)).toMatchObject({ code: 'missing_kind' })
  agent.live(put(2, 1, manifest(widgetDefinition(group))))
  await agent.reported(1, 'applied', 1)
  expect(agent.events('FAILED')).toHaveLength(1)
})

test('a stack without its namespace is applied when the namespace arrives', async () => {
  await again({ retryBaseMs: 600_000, retryMaxMs: 600_000 })
  const later = `${namespace}-later`
  agent.list(put(1, 1, manifest(configMap(later, 'a'))))
  expect(await agent.reported(1, 'failed', 1)).toMatchObject({ code: 'missing_namespace' })
  await world.kube.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: later } })
  await agent.reported(1, 'applied', 1)
})

test('[A26] an RBAC denial is reported with its verb and heals after the grant', async () => {
  await agent.stop()
  world = await reconcileWorld(at, {}, { token: at.plainToken })
  const rbac = 'rbac.authorization.k8s.io'
  const role = (name: string, rules: readonly object[]) =>
    world.kube.create({ apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata: { name: `${namespace}-${name}` }, rules })
  const bind = (name: string) =>
    world.kube.create({
      apiVersion: `${rbac}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: { name: `${namespace}-${name}` },
      roleRef: { apiGroup: rbac, kind: 'ClusterRole', name: `${namespace}-${name}` },
      subjects: [{ kind: 'User', apiGroup: rbac, name: 'plain' }],
    })
  const all = ['get', 'list', 'watch', 'create', 'patch', 'delete']
  await role('base', [
    { apiGroups: [''], resources: ['secrets', 'configmaps'], verbs: all },
    { apiGroups: [''], resources: ['services'], verbs: ['get', 'list', 'watch'] },
  ])
  await bind('base')
  await role('more', [{ apiGroups: [''], resources: ['services'], verbs: all }])
  const isAllowed = async () => (await at.api('GET', `/api/v1/namespaces/${world.own}/secrets`, { token: at.plainToken })).status === 200
  await waitFor('the first rights', isAllowed)
  agent = await startAgentWorld(world)
  const service = { apiVersion: 'v1', kind: 'Service', metadata: { name: 'web', namespace }, spec: { ports: [{ port: 80 }] } }
  agent.list(put(1, 1, manifest(map('a'), service)))
  const row = await agent.reported(1, 'failed', 1)
  expect(row).toMatchObject({ code: 'forbidden', message: expect.stringContaining(`Service ${namespace}/web: forbidden: patch services`) })
  expect(agent.events('FAILED')).toMatchObject([{ error_code: 'forbidden' }])
  await bind('more')
  await agent.reported(1, 'applied', 1)
})

test('[A27] an attempt waits for Retry-After of a 429 and succeeds', async () => {
  const pauseSeconds = 3
  let refusedAtMs = 0
  world.recorder.intercept((request, response) => {
    if (refusedAtMs > 0 || request.method !== 'PATCH' || !request.path.endsWith('/configmaps/a') || request.isDryRun) return false
    refusedAtMs = request.atMs
    return refuse(response, 429, 'TooManyRequests', 'slow down', { 'retry-after': String(pauseSeconds) })
  })
  agent.list(put(1, 1, manifest(map('a'))))
  expect((await agent.reported(1, 'applied', 1)).attempts).toBe(1)
  const writes = world.recorder.requests.filter(
    ({ path, isDryRun, method }) => path.endsWith('/configmaps/a') && !isDryRun && method === 'PATCH',
  )
  expect(writes).toHaveLength(2)
  expect((writes[1]?.atMs ?? 0) - refusedAtMs).toBeGreaterThanOrEqual(pauseSeconds * 1000 - 50)
  expect(agent.events().map(({ event_type }) => event_type)).toEqual(['APPLIED'])
})

test('[A48] 0644, yes and a 64-bit integer are applied as 420, true and the exact number', async () => {
  const group = newGroup()
  agent.list(put(1, 1, manifest(widgetDefinition(group))))
  await agent.reported(1, 'applied', 1)
  const text = `apiVersion: ${group}/v1
kind: Widget
metadata: {name: w, namespace: ${namespace}}
spec: {defaultMode: 0644, enabled: yes, big: 9007199254740993}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: ${namespace}}
spec:
  replicas: 0
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      automountServiceAccountToken: yes
      containers: [{name: main, image: "example.invalid/web:1"}]
      volumes: [{name: v, configMap: {name: c, defaultMode: 0644}}]
`
  agent.live(put(2, 1, text))
  await agent.reported(2, 'applied', 1)
  const widget = await world.kube.get({ apiVersion: `${group}/v1`, kind: 'Widget', namespace, name: 'w' })
  expect(widget.spec).toEqual({ defaultMode: 420, enabled: true, big: 9007199254740993n })
  const web = await world.kube.get({ apiVersion: 'apps/v1', kind: 'Deployment', namespace, name: 'web' })
  expect(web).toMatchObject({
    spec: { template: { spec: { automountServiceAccountToken: true, volumes: [{ configMap: { defaultMode: 420 } }] } } },
  })
})
