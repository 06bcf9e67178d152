import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AgentWorld, manifest, startAgentWorld } from '../../test-parts/agent-world.ts'
import { type ApiRequest, refuse } from '../../test-parts/api-recorder.ts'
import { marker, put, stackId } from '../../test-parts/frames.ts'
import { CONFIG_MAP, configMap, newGroup, type ReconcileWorld, reconcileWorld, widgetDefinition } from '../../test-parts/reconcile-world.ts'

let at: Awaited<ReturnType<typeof cluster>>
let world: ReconcileWorld
let namespace: string
let agent: AgentWorld
beforeAll(async () => {
  at = await cluster({ controllers: false })
})
beforeEach(async () => {
  world = await reconcileWorld(at)
  namespace = await at.namespace()
  agent = await startAgentWorld(world)
})
afterEach(() => agent.stop())

const map = (name: string, data: Record<string, unknown> = {}, metadata: object = {}) => configMap(namespace, name, data, metadata)
const find = (name: string) => world.kube.find({ ...CONFIG_MAP, namespace, name })
const deleted = () => world.recorder.deletes().map((path) => path.split('/').at(-1) ?? '')
const parentOf = (n: number) => ({ apiVersion: 'v1', kind: 'Secret', namespace: world.own, name: `brokkr-stack-${stackId(n)}` })
const patchParent = (n: number, body: object) => world.kube.patch(parentOf(n), { type: 'merge', body: body as never })
const restart = async () => {
  await agent.stop()
  agent = await startAgentWorld(world)
}
/** Nothing may put labels back. */
const unwatched = { drift: 'off' } as const
const PART_OF = 'applyset.kubernetes.io/part-of'
const strip = (name: string, ...labels: readonly string[]) =>
  world.kube.patch(
    { ...CONFIG_MAP, namespace, name },
    { type: 'merge', body: { metadata: { labels: Object.fromEntries(labels.map((label) => [label, null])) } } },
  )
/** The row waits for the event. */
const removed = async (n: number, rev: number) => {
  await agent.event('DELETED')
  await agent.reported(n, 'removed', rev)
}
const allLabels = [PART_OF, 'brokkr.io/stack', 'brokkr.io/owner-id']

test.each([
  ['a broken inventory', { data: { 'inventory.json.gz': 'AAAA' } }],
  ['no inventory', { data: { 'inventory.json.gz': null } }],
  ['no labels', { metadata: { labels: { 'brokkr.io/owner-id': null, 'applyset.kubernetes.io/id': null } } }],
])('a Namespace is not pruned while a parent Secret has %s, and the status names it', async (_what, damage) => {
  const shared = `shared-${namespace}`
  const ground = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: shared } }
  agent.list(put(1, 1, manifest(ground)))
  await agent.reported(1, 'applied', 1)
  agent.live(put(2, 1, manifest(configMap(shared, 'theirs'))))
  await agent.reported(2, 'applied', 1)
  const whole = await world.kube.get(parentOf(2))
  await patchParent(2, damage)
  await restart()
  agent.list(marker(1, 2), put(2, 2, manifest(configMap(shared, 'other'))))
  const row = await agent.reported(1, 'pending', 2, 'removing')
  expect(row.message).toContain(`brokkr-stack-${stackId(2)}`)
  expect(deleted()).toEqual([])
  // The stack itself does nothing either, and names its parent.
  expect((await agent.reported(2, 'failed', 2, 'foreign_object')).message).toContain(`brokkr-stack-${stackId(2)}`)
  expect(deleted()).toEqual([])
  // Repaired, it is known again for what it holds.
  await patchParent(2, { data: whole.data, metadata: { labels: whole.metadata.labels } })
  await waitFor('the members to be seen', () => agent.rowOf(1)?.message?.includes('foreign_content'), { limitMs: 30_000 })
  expect(deleted()).not.toContain(shared)
})

test('[A6] a removal deletes a member without the ApplySet label', async () => {
  agent.list(put(1, 1, manifest(map('a'), map('b')), unwatched))
  await agent.reported(1, 'applied', 1)
  await strip('a', PART_OF)
  agent.live(marker(1, 2))
  await removed(1, 2)
  expect([await find('a'), await find('b')]).toEqual([undefined, undefined])
})

test('[A6] a removal reports a member without labels and ends after it is deleted', async () => {
  agent.list(put(1, 1, manifest(map('a'), map('b')), unwatched))
  await agent.reported(1, 'applied', 1)
  await strip('a', ...allLabels)
  agent.live(marker(1, 2))
  const row = await agent.reported(1, 'pending', 2, 'removing')
  expect(row.message).toMatch(/ConfigMap \S+\/a was applied by this stack and is left over/)
  expect(agent.events('DELETED')).toEqual([])
  expect(await world.kube.find(parentOf(1))).toBeDefined()
  expect(await find('a')).toBeDefined()
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'a' })
  await removed(1, 2)
})

test('a dropped member without labels is deleted or reported', async () => {
  const kept = [map('x'), map('y'), map('z')]
  agent.list(put(1, 1, manifest(...kept, map('a'), map('b')), unwatched))
  await agent.reported(1, 'applied', 1)
  await strip('a', PART_OF)
  await strip('b', ...allLabels)
  agent.live(put(1, 2, manifest(...kept), unwatched))
  const row = await agent.reported(1, 'pending', 2, 'removing')
  expect(row.message).toContain('/b was applied by this stack')
  expect([await find('a'), (await find('b'))?.metadata.name]).toEqual([undefined, 'b'])
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'b' })
  await agent.reported(1, 'applied', 2)
})

test('a member owned by another tool is neither deleted nor waited for', async () => {
  agent.list(put(1, 1, manifest(map('a'), map('b')), unwatched))
  await agent.reported(1, 'applied', 1)
  const labels = { [PART_OF]: 'applyset-of-another-tool' }
  await world.kube.patch({ ...CONFIG_MAP, namespace, name: 'a' }, { type: 'merge', body: { metadata: { labels } } })
  agent.live(marker(1, 2))
  await removed(1, 2)
  expect([(await find('a'))?.metadata.name, await find('b')]).toEqual(['a', undefined])
})

test('[A6] a DELETE that admission rejects with 409 does not count as deleted', async () => {
  agent.list(put(1, 1, manifest(map('a'))))
  await agent.reported(1, 'applied', 1)
  world.recorder.intercept(({ method, path }, response) =>
    method === 'DELETE' && path.endsWith('/configmaps/a')
      ? refuse(response, 409, 'Conflict', 'admission webhook "keep.example.com" denied the request: not now')
      : false,
  )
  agent.live(marker(1, 2))
  expect((await agent.reported(1, 'failed', 2, 'denied')).message).toContain('not now')
  expect(await find('a')).toBeDefined()
  world.recorder.intercept(null)
  await removed(1, 2)
  expect(await find('a')).toBeUndefined()
})

test('[A6] a 404 of a proxy does not count as a removed parent', async () => {
  agent.list(put(1, 1, manifest(map('a'))))
  await agent.reported(1, 'applied', 1)
  world.recorder.intercept(({ path }, response) => {
    if (!path.endsWith(`/secrets/brokkr-stack-${stackId(1)}`)) return false
    response.writeHead(404, { 'content-type': 'text/plain' }).end('default backend - 404')
    return true
  })
  agent.live(marker(1, 2))
  expect((await agent.reported(1, 'failed', 2)).message).toContain('default backend')
  expect(agent.events('DELETED')).toEqual([])
  world.recorder.intercept(null)
  await removed(1, 2)
  expect(await find('a')).toBeUndefined()
})

test.each([
  ['definitions are forbidden', false],
  ['the agent may not look beyond its namespaces', true],
])('[A6] a kind missing in discovery delays the removal when %s', async (_why, isLimited) => {
  const group = newGroup()
  await world.kube.create(widgetDefinition(group))
  const policy = { ...agent.deps.settings.policy, allowedNamespaces: [namespace] }
  await agent.stop()
  agent = await startAgentWorld(world, isLimited ? { settings: { policy } } : {})
  const widget = { apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w', namespace } }
  agent.list(put(1, 1, manifest(widget, map('a'))))
  await agent.reported(1, 'applied', 1)
  await world.kube.discovery.refresh()
  world.recorder.intercept(({ path }, response) => {
    if (path.endsWith('/customresourcedefinitions') && !isLimited)
      return refuse(response, 403, 'Forbidden', 'cannot list resource "customresourcedefinitions"')
    return path === '/apis' && discoveryAnswer(response)
  })
  await agent.deps.kube.discovery.refresh()
  agent.live(marker(1, 2))
  expect((await agent.reported(1, 'pending', 2, 'removing')).message).toContain(`Widget.${group}`)
  expect(await world.kube.find(widgetRef(widget))).toBeDefined()
  world.recorder.intercept(null)
  await removed(1, 2)
  expect(await world.kube.find(widgetRef(widget))).toBeUndefined()
})

test('[A6] a kind missing in discovery after the list delays the removal', async () => {
  const group = newGroup()
  await world.kube.create(widgetDefinition(group))
  const widget = { apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w', namespace } }
  agent.list(put(1, 1, manifest(widget, map('a')), unwatched))
  await agent.reported(1, 'applied', 1)
  await world.kube.discovery.refresh()
  await world.kube.patch(widgetRef(widget), { type: 'merge', body: { metadata: { labels: { [PART_OF]: null } } } })
  let isMissed = false
  world.recorder.intercept(({ path }, response) => {
    if (path === '/apis' && isMissed) return discoveryAnswer(response)
    if (!path.endsWith('/widgets') || isMissed) return false
    isMissed = true
    return agent.deps.kube.discovery.refresh().then(() => false)
  })
  agent.live(marker(1, 2))
  expect((await agent.reported(1, 'pending', 2, 'removing')).message).toContain(`Widget.${group}`)
  world.recorder.intercept(null)
  await removed(1, 2)
  expect(await world.kube.find(widgetRef(widget))).toBeUndefined()
})

const discoveryAnswer = (response: Parameters<typeof refuse>[0]): true => {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify({ kind: 'APIGroupDiscoveryList', apiVersion: 'apidiscovery.k8s.io/v2', items: definitions }))
  return true
}

const widgetRef = ({
  apiVersion,
  kind,
  metadata,
}: {
  apiVersion: string
  kind: string
  metadata: { name: string; namespace: string }
}) => ({
  apiVersion,
  kind,
  ...metadata,
})
/** What discovery still names. */
const definitions = [
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
            verbs: ['get', 'list'],
          },
        ],
      },
    ],
  },
]

test.each([
  ['a 503', (response: Parameters<typeof refuse>[0]) => refuse(response, 503, 'ServiceUnavailable', 'starting')],
  ['a closed connection', (response: Parameters<typeof refuse>[0]) => (response.socket?.destroy(), true)],
])('an attempt continues after %s on each of its reads, without a FAILED event', async (_what, fail) => {
  const failed = new Set<string>()
  // Each read fails once, and once more for the read that the client itself repeats.
  const counts = new Map<string, number>()
  world.recorder.intercept(({ method, path, query }: ApiRequest, response) => {
    if (method !== 'GET' || query.has('watch')) return false
    const count = (counts.get(path) ?? 0) + 1
    counts.set(path, count)
    if (count > 2) return false
    failed.add(path)
    return fail(response)
  })
  agent.list(put(1, 1, manifest(map('a'))))
  await agent.reported(1, 'applied', 1)
  expect([...failed]).toContain(`/api/v1/namespaces/${world.own}/secrets/brokkr-stack-${stackId(1)}`)
  counts.clear()
  agent.live(marker(1, 2))
  await removed(1, 2)
  expect(agent.events('FAILED')).toEqual([])
  expect(await find('a')).toBeUndefined()
})
