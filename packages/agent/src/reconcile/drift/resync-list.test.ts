import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AgentWorld, manifest, startAgentWorld } from '../../test-parts/agent-world.ts'
import { refuse } from '../../test-parts/api-recorder.ts'
import { put, stackId } from '../../test-parts/frames.ts'
import { CONFIG_MAP, configMap, type ReconcileWorld, reconcileWorld } from '../../test-parts/reconcile-world.ts'
import { findUnchangedStacks } from './resync-list.ts'

let at: Awaited<ReturnType<typeof cluster>>
let world: ReconcileWorld
let namespace: string
let agent: AgentWorld
beforeAll(async () => {
  at = await cluster({ controllers: false })
})
const ids = [1, 2, 3].map(stackId)
const ref = (name: string) => ({ ...CONFIG_MAP, namespace, name })
const signal = new AbortController().signal
const survey = async () => [...(await findUnchangedStacks(agent.deps, ids, signal))].toSorted()
const members = (n: number) => [configMap(namespace, `a${n}`), configMap(namespace, `b${n}`)]

beforeEach(async () => {
  world = await reconcileWorld(at)
  namespace = await at.namespace()
  agent = await startAgentWorld(world)
  agent.list(...[1, 2, 3].map((n) => put(n, 1, manifest(...members(n)))))
  await Promise.all([1, 2, 3].map((n) => agent.reported(n, 'applied', 1)))
})
afterEach(() => agent.stop())

test('two lists prove three stacks unchanged, and a resync reconciles none of them', async () => {
  await waitFor('the end of all work', () => agent.controller.depth === 0)
  world.recorder.clear()
  expect(await agent.controller.resync(signal)).toBe(0)
  const reads = world.recorder.requests
    .filter(({ path, query }) => !query.has('watch') && !path.startsWith('/apis'))
    .map(({ path }) => path)
  expect(reads).toEqual([`/api/v1/namespaces/${world.own}/secrets`, '/api/v1/configmaps'])
})

test.each([
  ['a member was changed', () => world.kube.patch(ref('a2'), { type: 'merge', body: { data: { x: 'theirs' } } })],
  ['a member was deleted', () => world.kube.delete(ref('a2'))],
  [
    'a mark was taken off',
    () => world.kube.patch(ref('a2'), { type: 'merge', body: { metadata: { labels: { 'applyset.kubernetes.io/part-of': null } } } }),
  ],
  [
    'somebody made a copy with all labels',
    async () => world.kube.create(configMap(namespace, 'copy', {}, { labels: (await world.kube.get(ref('a2'))).metadata.labels ?? {} })),
  ],
  [
    'the parent was touched',
    () =>
      world.kube.patch(
        { apiVersion: 'v1', kind: 'Secret', namespace: world.own, name: `brokkr-stack-${stackId(2)}` },
        { type: 'merge', body: { metadata: { annotations: { touched: 'yes' } } } },
      ),
  ],
])('%s: only that stack is reconciled', async (_what, change) => {
  // What follows must be seen by the list alone.
  await agent.stop()
  expect(await survey()).toEqual(ids)
  await change()
  expect(await survey()).toEqual([stackId(1), stackId(3)])
})

test('a kind that cannot be listed proves no stack unchanged', async () => {
  await agent.stop()
  world.recorder.intercept(
    (request, response) => request.path === '/api/v1/configmaps' && refuse(response, 403, 'Forbidden', 'cannot list resource "configmaps"'),
  )
  expect(await survey()).toEqual([])
})
