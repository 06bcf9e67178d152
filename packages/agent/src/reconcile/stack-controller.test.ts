import { randomUUID } from 'node:crypto'
import type { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AgentWorld, manifest, startAgentWorld } from '../test-parts/agent-world.ts'
import { begin, del, end, epochs, hello, marker, put } from '../test-parts/frames.ts'
import { CONFIG_MAP, configMap, described, type ReconcileWorld, reconcileWorld } from '../test-parts/reconcile-world.ts'

let at: Awaited<ReturnType<typeof cluster>>
let world: ReconcileWorld
let namespace: string
let agent: AgentWorld
let seen = 0
beforeAll(async () => {
  at = await cluster()
})
beforeEach(async () => {
  world = await reconcileWorld(at)
  namespace = await at.namespace()
  agent = await startAgent()
  seen = 0
})
afterEach(() => agent.stop())

const startAgent = () => startAgentWorld(world)

const map = (name: string, data: Record<string, unknown> = {}, metadata: object = {}) => configMap(namespace, name, data, metadata)
const find = (name: string) => world.kube.find({ ...CONFIG_MAP, namespace, name })
const rowOf = (n: number) => agent.rowOf(n)
const reported = (n: number, phase: string, rev: number) => agent.reported(n, phase, rev)
function takeEvents(): NewAgentEvent[] {
  const all = agent.events()
  const taken = all.slice(seen)
  seen = all.length
  return taken
}
const events = () => takeEvents().map(({ event_type, status, sequence_id }) => `${event_type} ${status} ${sequence_id}`)
const eventIds = () => new Set(takeEvents().map(({ id, event_type }) => `${event_type} ${id}`))

test('a put is applied, the next put updates it, a marker removes it, each reported once', async () => {
  agent.list(put(1, 1, manifest(map('a', { x: '1' }))))
  await reported(1, 'applied', 1)
  agent.live(put(1, 2, manifest(map('a', { x: '2' }), map('b'))))
  await reported(1, 'applied', 2)
  expect((await find('a'))?.data).toEqual({ x: '2' })
  expect(events()).toEqual(['APPLIED SUCCESS 1', 'UPDATED SUCCESS 2'])
  agent.live(marker(1, 3))
  await waitFor('a and b to go', async () => !(await find('a')) && !(await find('b')))
  await waitFor('the event', () => agent.outbox.allEvents()[0])
  // The row waits for its event: the broker takes events of a removed stack no more.
  expect(rowOf(1)?.phase).not.toBe('removed')
  expect(events()).toEqual(['DELETED SUCCESS 3'])
  await reported(1, 'removed', 3)
})

test('a restarted agent writes nothing and resends its rows and the event with its old id', async () => {
  const frames = [put(1, 1, manifest(map('a', { x: '1' }))), put(2, 1, manifest(map('b')))] as const
  agent.list(...frames)
  await Promise.all([reported(1, 'applied', 1), reported(2, 'applied', 1)])
  const before = eventIds()
  await agent.stop()
  world.writes.length = 0
  agent = await startAgent()
  seen = 0
  agent.list(...frames)
  await Promise.all([reported(1, 'applied', 1), reported(2, 'applied', 1)])
  expect(world.writes).toEqual([])
  expect(eventIds()).toEqual(before)
})

test('a deleted, edited or unlabeled member is healed before the resync', async () => {
  agent.list(put(1, 1, manifest(map('a', { x: '1' }), map('b', { y: '1' }), map('c'))))
  await reported(1, 'applied', 1)
  const before = await find('a')
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'a' })
  await waitFor('a again', async () => ((await find('a'))?.metadata.uid ?? before?.metadata.uid) !== before?.metadata.uid)
  expect((await find('a'))?.data).toEqual({ x: '1' })
  await world.kube.patch(
    { ...CONFIG_MAP, namespace, name: 'b' },
    { type: 'merge', body: { data: { y: '2', extra: 'kept' } } },
    { fieldManager: 'kubectl-edit' },
  )
  await waitFor(
    'b as it was, with what nobody of us owns',
    async () => JSON.stringify((await find('b'))?.data) === '{"extra":"kept","y":"1"}',
  )
  await world.kube.patch(
    { ...CONFIG_MAP, namespace, name: 'c' },
    { type: 'merge', body: { metadata: { labels: { 'brokkr.io/owner-id': null } } } },
  )
  await waitFor('the label of c', async () => (await find('c'))?.metadata.labels?.['brokkr.io/owner-id'] === world.agentId)
})

test('own writes cause no drift check', async () => {
  const maps = (x: string) => manifest(...Array.from({ length: 20 }, (_, index) => map(`m${index}`, { x })))
  // The watch of a kind is in order: once it has shown this deletion, it has shown everything before.
  const watchIsHere = async (heals: number) => {
    await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'sentinel' })
    await waitFor('the sentinel to be healed', async () => (await agent.drifts('healed')) === heals)
  }
  agent.list(put(1, 1, maps('1')), put(2, 1, manifest(map('sentinel'))))
  await Promise.all([reported(1, 'applied', 1), reported(2, 'applied', 1)])
  await watchIsHere(1)
  agent.live(put(1, 2, maps('2')))
  await reported(1, 'applied', 2)
  await watchIsHere(2)
  expect(await agent.drifts('none')).toBe(0)
})

test('a scaled Deployment is healed without changing status fields or other members', async () => {
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', namespace },
    spec: {
      replicas: 0,
      selector: { matchLabels: { app: 'web' } },
      template: { metadata: { labels: { app: 'web' } }, spec: { containers: [{ name: 'main', image: 'example.invalid/web:1' }] } },
    },
  }
  agent.list(put(1, 1, manifest(deployment, map('a'))))
  await reported(1, 'applied', 1)
  const ref = { apiVersion: 'apps/v1', kind: 'Deployment', namespace, name: 'web' }
  // The controller writes its revision and status after us.
  await waitFor('the controller', async () => (await world.kube.get(ref)).status?.['observedGeneration'] === 1)
  world.writes.length = 0
  const { resourceVersion } = (await world.kube.get(ref)).metadata
  await world.kube.request('PATCH', `/apis/apps/v1/namespaces/${namespace}/deployments/web/scale`, {
    body: { spec: { replicas: 3 } },
    contentType: 'application/merge-patch+json',
  })
  await waitFor(
    'the replicas',
    async () =>
      (await world.kube.get(ref)).spec?.['replicas'] === 0 && (await world.kube.get(ref)).metadata.resourceVersion !== resourceVersion,
  )
  expect(described(world.writes)).not.toContain('apply ConfigMap a')
})

test('the last of many puts is applied, and a del removes only its stack', async () => {
  agent.list(put(1, 1, manifest(map('a', { x: '1' }))), put(2, 1, manifest(map('b'))))
  for (let rev = 2; rev <= 30; rev++) agent.live(put(1, rev, manifest(map('a', { x: String(rev) }))))
  await reported(1, 'applied', 30)
  expect((await find('a'))?.data).toEqual({ x: '30' })
  await reported(2, 'applied', 1)
  agent.live(del(2, 1))
  await waitFor('b to go', async () => !(await find('b')))
  await waitFor('the stack to be forgotten', () => agent.map.desired.removals.size === 0)
  expect(await find('a')).toBeDefined()
  expect((await world.deps.parents.owned(AbortSignal.timeout(10_000))).size).toBe(1)
})

test('a verified snapshot removes a few stacks at once, and many only after approval', async () => {
  const stacks = Array.from({ length: 8 }, (_, index) => put(index + 1, 1, manifest(map(`m${index + 1}`))))
  agent.list(...stacks)
  await Promise.all(stacks.map((_, index) => reported(index + 1, 'applied', 1)))
  agent.list(...stacks.slice(1))
  await waitFor('the first to go', async () => !(await find('m1')))
  // Seven owned, six vanish: more than five and more than a fifth.
  agent.list(...stacks.slice(7))
  await reported(2, 'held', 1)
  expect(rowOf(2)).toMatchObject({ code: 'prune_guard' })
  expect(await find('m2')).toBeDefined()
  // Held is not frozen: drift is still healed.
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'm2' })
  await waitFor('m2 again', () => find('m2'))
  const kept = stacks.slice(7)
  agent.tell(hello(), begin({ allow_removals: 6 }), ...kept, end(kept))
  await waitFor('six to go', async () => (await world.deps.parents.owned(AbortSignal.timeout(10_000))).size === 1)
  expect(await find('m8')).toBeDefined()
})

test('after a restart, stacks absent from the snapshot are removed through the guard', async () => {
  agent.list(put(1, 1, manifest(map('a'))), put(2, 1, manifest(map('b'))))
  await Promise.all([reported(1, 'applied', 1), reported(2, 'applied', 1)])
  await agent.stop()
  agent = await startAgent()
  seen = 0
  // Empty and complete: all by silence.
  agent.tell(hello(), begin(), end([]))
  await Promise.all([reported(1, 'held', 1), reported(2, 'held', 1)])
  expect([await find('a'), await find('b')].map((found) => found !== undefined)).toEqual([true, true])
  // What another history never knew waits for a person, however little it is; a removal that the list names does not.
  const listed = [put(1, 1, manifest(map('a'))), del(2, 1)] as const
  agent.tell(hello({ epoch: epochs[1] }), begin(), ...listed, end(listed))
  await waitFor('b to go', async () => !(await find('b')))
  expect(await find('a')).toBeDefined()
})

test('a failed stack is reported, does not block others, and heals with the next object', async () => {
  await world.kube.create(map('taken'))
  agent.list(put(1, 1, manifest(map('taken', { x: '1' }))), put(2, 1, manifest(map('b'))))
  await reported(2, 'applied', 1)
  const row = await reported(1, 'failed', 1)
  expect(row).toMatchObject({ code: 'foreign_object', retry_at: expect.any(String) })
  await waitFor('a second attempt', () => (rowOf(1)?.attempts ?? 0) >= 2)
  expect(events().filter((event) => event.startsWith('FAILED'))).toEqual(['FAILED FAILURE 1'])
  agent.live(put(1, 2, manifest(map('free'))))
  await reported(1, 'applied', 2)
})

test('a stack waits for a missing kind and is applied when it arrives', async () => {
  const group = `g${randomUUID().slice(0, 8)}.example.com`
  agent.list(put(1, 1, JSON.stringify({ apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w', namespace } })))
  expect(await reported(1, 'failed', 1)).toMatchObject({ code: 'missing_kind' })
  await world.kube.create({
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
  })
  await reported(1, 'applied', 1)
})
