import { ApiError } from '@brokkr/contract/errors.ts'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { nodes } from '@brokkr/testing/servers/nodes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AgentWorld, manifest, startAgentWorld } from '../../test-parts/agent-world.ts'
import { put, stackId } from '../../test-parts/frames.ts'
import { configMap, deployment, type ReconcileWorld, reconcileWorld } from '../../test-parts/reconcile-world.ts'
import { OwnedObjects } from './owned-objects.ts'
import type { Delta } from './resource-tree.ts'
import { type ResourceTreeLoop, resourceTreeLoop } from './resource-tree-loop.ts'

type Report = Delta & { readonly stack_id: string; readonly rev: number }
let at: Awaited<ReturnType<typeof cluster>>
let world: ReconcileWorld
let namespace: string
let agent: AgentWorld
let sent: Report[]
let answer: () => void
let children: OwnedObjects
let inventory: ResourceTreeLoop
beforeAll(async () => {
  at = await cluster()
  await nodes(1)
})
beforeEach(async () => {
  world = await reconcileWorld(at)
  namespace = await at.namespace()
  agent = await startAgentWorld(world)
  sent = []
  answer = () => undefined
  const { kube } = agent.deps
  children = new OwnedObjects({ kube, clock, log, namespaces: () => [namespace] })
  children.onChange(() => inventory.touchOwners())
  inventory = resourceTreeLoop({
    clock,
    ownedObjects: children,
    running: () => agent.controller.listApplied(),
    unwell: () => new Map(),
    send: async (report) => {
      answer()
      sent.push(report as Report)
    },
    everyMs: () => 5_000,
  })
})
afterEach(async () => {
  await children.stop()
  await agent.stop()
})

const run = () => inventory.run(new AbortController().signal)
const kinds = (report: Report | undefined) => (report?.nodes ?? []).map(({ kind, health }) => `${kind} ${health}`).toSorted()

test('the first report is complete, and later reports contain only changes', async () => {
  agent.list(put(1, 1, manifest(configMap(namespace, 'a'), deployment(namespace, 'web', 2))))
  await agent.reported(1, 'applied', 1)
  await run()
  expect(sent[0]).toMatchObject({ stack_id: stackId(1), rev: 1, full: true })
  const seen = () => sent.flatMap((report) => report.nodes.map(({ uid }) => uid))
  const pods = async () => (await world.kube.list({ apiVersion: 'v1', kind: 'Pod' }, { namespace })).items
  await waitFor('two pods with their ReplicaSet', async () => (await run(), new Set(seen()).size === 5), {
    limitMs: 60_000,
    onTimeout: () => JSON.stringify(sent),
  })
  const nodesByUid = new Map(sent.flatMap((report) => report.nodes).map((node) => [node.uid, node]))
  const [pod] = await pods()
  const set = nodesByUid.get(nodesByUid.get(pod?.metadata.uid ?? '')?.owner_uid ?? '')
  expect([set?.kind, nodesByUid.get(set?.owner_uid ?? '')?.name]).toEqual(['ReplicaSet', 'web'])
  expect(JSON.stringify(sent)).not.toContain('example.invalid')
  const before = sent.length
  await world.kube.delete({ apiVersion: 'v1', kind: 'Pod', namespace, name: pod!.metadata.name }, { gracePeriodSeconds: 0 })
  await waitFor(
    'its end',
    async () => (await run(), sent.slice(before).some(({ removed_uids }) => removed_uids.includes(pod!.metadata.uid ?? ''))),
  )
  expect(sent.slice(before).every(({ full }) => !full)).toBe(true)
}, 120_000)

test('a new session, a lost base or an outage causes a complete report', async () => {
  agent.list(put(1, 1, manifest(configMap(namespace, 'a'))), put(2, 1, manifest(configMap(namespace, 'b'))))
  await Promise.all([agent.reported(1, 'applied', 1), agent.reported(2, 'applied', 1)])
  await run()
  expect(sent.map(kinds)).toEqual([['ConfigMap healthy'], ['ConfigMap healthy']])
  await run()
  expect(sent).toHaveLength(2)
  inventory.resendAll()
  await run()
  expect(sent.slice(2).map(({ full }) => full)).toEqual([true, true])
  agent.live(put(1, 2, manifest(configMap(namespace, 'a'), configMap(namespace, 'c'))))
  await agent.reported(1, 'applied', 2)
  answer = () => {
    throw new ApiError('inventory_base_unknown', 'send everything')
  }
  inventory.touch(stackId(1))
  await run()
  answer = () => undefined
  await run()
  expect(sent.slice(4)).toMatchObject([{ stack_id: stackId(1), rev: 2, full: true }])
  answer = () => {
    throw new ApiError('route_not_found', 'no such operation')
  }
  inventory.resendAll()
  await run()
  answer = () => undefined
  await run()
  expect(sent).toHaveLength(5)
})

test('owned objects are watched only in namespaces of members while reports are accepted', async () => {
  agent.list(put(1, 1, manifest(deployment(namespace, 'web', 1))))
  await agent.reported(1, 'applied', 1)
  answer = () => {
    throw new ApiError('route_not_found', 'no such operation')
  }
  world.recorder.clear()
  const asked = () =>
    world.recorder.requests.filter(({ path }) => /\/(pods|replicasets|jobs|endpointslices)$/.test(path)).map(({ path }) => path)
  await run()
  await run()
  expect(asked()).toEqual([])
  answer = () => undefined
  inventory.resendAll()
  await run()
  await run()
  await waitFor('the four lists', () => new Set(asked()).size === 4)
  expect(asked().filter((path) => !path.includes(`/namespaces/${namespace}/`))).toEqual([])
})

test('stacks queued behind a failed report are reported in the next run', async () => {
  const both = (rev: number, ...extra: string[]) =>
    [1, 2].map((n) => put(n, rev, manifest(...[`a${n}`, ...extra.map((name) => `${name}${n}`)].map((name) => configMap(namespace, name)))))
  const applied = (rev: number) => Promise.all([agent.reported(1, 'applied', rev), agent.reported(2, 'applied', rev)])
  agent.list(...both(1))
  await applied(1)
  await run()
  for (const frame of both(2, 'b')) agent.live(frame)
  await applied(2)
  for (const n of [1, 2]) inventory.touch(stackId(n))
  answer = () => {
    throw new ApiError('overloaded', 'later')
  }
  await run()
  expect(sent).toHaveLength(2)
  answer = () => undefined
  await run()
  expect(sent.slice(2).map(({ stack_id, rev, full }) => [stack_id, rev, full])).toEqual([
    [stackId(1), 2, true],
    [stackId(2), 2, false],
  ])
})
