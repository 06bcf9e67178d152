// What is asked of an agent about running pods, on a real cluster whose pods are played: diagnostics and telemetry.
import { randomUUID } from 'node:crypto'
import { appendFile } from 'node:fs/promises'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { nodes } from '@brokkr/testing/servers/nodes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { agentMetrics } from '../metrics.ts'
import { reconcileStack } from '../reconcile/reconcile-stack.ts'
import { StackFinder } from '../telemetry/find-stack.ts'
import { startKubeEvents } from '../telemetry/kube-events.ts'
import { STREAM_LOGS, startPodLogs } from '../telemetry/pod-logs.ts'
import { TelemetryBuffer, type TelemetryItem } from '../telemetry/telemetry-buffer.ts'
import { telemetryLoop } from '../telemetry/telemetry-loop.ts'
import { type ReconcileWorld, reconcileWorld, revision } from '../test-parts/reconcile-world.ts'
import { recordedDiagnostic } from '../test-parts/recorded-orders.ts'
import { closeAfter, json, scriptedBroker } from '../test-parts/scripted-broker.ts'
import { diagnosticsLoop } from './diagnostics-loop.ts'

let at: TestCluster
let world: ReconcileWorld
let namespace: string
let objectId: string
const stackId = randomUUID()
const signal = new AbortController().signal

beforeAll(async () => {
  at = await cluster()
  await nodes(1)
  world = await reconcileWorld(at)
  namespace = await at.namespace('pods')
  const labels = { app: 'web' }
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', namespace },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: {
        metadata: { labels, annotations: { [STREAM_LOGS]: 'true' } },
        spec: { containers: [{ name: 'c', image: 'x', env: [{ name: 'TOKEN', value: 'canary-in-env' }] }] },
      },
    },
  }
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 's', namespace }, stringData: { k: 'canary-in-secret' } }
  const task = revision(stackId, 1, [deployment, secret])
  objectId = task.object.id
  expect((await reconcileStack(world.deps, task, signal)).phase).toBe('applied')
  await waitFor('the pod', async () => ((await pods()).items[0]?.status.phase === 'Running' ? true : undefined), { limitMs: 90_000 })
}, 300_000)

interface Pods {
  readonly items: { readonly metadata: { readonly name: string; readonly uid: string }; readonly status: { readonly phase: string } }[]
}
const pods = async () => (await at.api('GET', `/api/v1/namespaces/${namespace}/pods`)).json as Pods
const members = async () => (await world.deps.parents.read(stackId, signal)).set.members

test('a diagnostic contains only pods of its stack, without environment or Secrets', async () => {
  const id = randomUUID()
  const request = recordedDiagnostic(id, world.agentId, objectId)
  const server = await scriptedBroker((_request, response, url) => {
    if (url.pathname.endsWith('/pending')) return json(response, 200, [request])
    if (url.pathname.endsWith('/claim')) return json(response, 200, { ...request, status: 'claimed' })
    return json(response, 201, {})
  })
  await at.api('POST', `/api/v1/namespaces/${namespace}/pods`, {
    body: { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'stranger' }, spec: { containers: [{ name: 'c', image: 'x' }] } },
  })
  const { kube, settings } = world.deps
  const loop = diagnosticsLoop({
    kube,
    clock,
    log,
    agentId: world.agentId as never,
    policy: settings.policy,
    client: (await server.connect()).client,
    everyMs: 1_000,
    subject: async () => ({ stackId, members: await members() }),
  })
  await loop.run(signal)
  const result = server.requests.find(({ url }) => url.pathname.endsWith(`/diagnostics/${id}/result`))
  const body = JSON.parse(result!.body) as Record<'pod_statuses' | 'events' | 'log_tails', string>
  const statuses = JSON.parse(body.pod_statuses) as { name: string; phase: string; containers: { name: string; ready: boolean }[] }[]
  expect(statuses.map(({ phase }) => phase)).toEqual(['Running'])
  expect(statuses[0]?.name).toMatch(/^web-/)
  expect(statuses[0]?.containers).toMatchObject([{ name: 'c', ready: true }])
  expect(Object.keys(JSON.parse(body.log_tails) as object)).toEqual([`${statuses[0]?.name}/c`])
  expect(
    (JSON.parse(body.events) as { involved_object: string }[]).every(({ involved_object }) => !involved_object.startsWith('stranger')),
  ).toBe(true)
  expect(result!.body).not.toContain('canary')
})

function sources() {
  const { kube, members: index } = world.deps
  const ring = new TelemetryBuffer({ metrics: agentMetrics(createMetrics()), now: () => clock.now() })
  const stackOf = new StackFinder({ kube, clock, members: index }, 1_000)
  return { ring, shared: { kube, clock, log, ring, stackOf, agentId: world.agentId, namespaces: [namespace] } }
}
const taken: TelemetryItem[] = []
const seen = (ring: TelemetryBuffer, is: (item: TelemetryItem) => boolean) =>
  waitFor(
    'telemetry',
    () => {
      taken.push(...ring.take({ count: 1_000, bytes: 1_000_000 }).items)
      return taken.find(is)
    },
    { limitMs: 60_000 },
  )

test('an event of a pod of a stack is sent with its stack, a foreign one is not', async () => {
  const { ring, shared } = sources()
  const watch = startKubeEvents(shared)
  closeAfter(() => watch.stop())
  const [pod] = (await pods()).items.filter(({ metadata }) => metadata.name.startsWith('web-'))
  const event = (reason: string, involvedObject: object) =>
    at.api('POST', `/api/v1/namespaces/${namespace}/events`, {
      body: { apiVersion: 'v1', kind: 'Event', metadata: { generateName: 'e-' }, reason, type: 'Warning', message: 'm', involvedObject },
    })
  const about = (name: string, uid: string) => ({ apiVersion: 'v1', kind: 'Pod', namespace, name, uid })
  // Told until it is seen: what was there before the watch began is history.
  const telling = setInterval(() => {
    void event('Strange', about('nobody', randomUUID()))
    void event('OurOwn', about(pod!.metadata.name, pod!.metadata.uid))
  }, 200)
  try {
    const { body } = await seen(ring, (item) => item.body['reason'] === 'OurOwn')
    expect(body).toMatchObject({
      agent_id: world.agentId,
      stack_id: stackId,
      event_type: 'Warning',
      involved_object: { kind: 'Pod', namespace },
    })
    expect(taken.some((item) => item.body['reason'] === 'Strange')).toBe(false)
  } finally {
    clearInterval(telling)
  }
})

test('events from before the start are neither read nor stored', async () => {
  const { shared } = sources()
  const path = `/api/v1/namespaces/${namespace}/events`
  world.recorder.clear()
  const watch = startKubeEvents(shared)
  closeAfter(() => watch.stop())
  const asked = () => world.recorder.requests.filter((request) => request.path === path)
  await waitFor('the watch', () => asked().some(({ query }) => query.has('watch')), { limitMs: 30_000 })
  const lists = asked().filter(({ query }) => !query.has('watch'))
  expect(lists.filter(({ query }) => query.get('limit') !== '1')).toEqual([])
})

test('telemetry is collected only while the broker accepts it', async () => {
  const served: boolean[] = []
  const { ring } = sources()
  const server = await scriptedBroker((_request, response) => json(response, 501, { code: 'not_available', message: 'no' }))
  const loop = telemetryLoop({
    broker: await server.connect(),
    pak: () => 'p',
    agentId: world.agentId as never,
    ring,
    now: () => 0,
    everyMs: 1_000,
    onServed: (isServed) => void served.push(isServed),
  })
  const every = () => (typeof loop.everyMs === 'function' ? loop.everyMs() : loop.everyMs)
  await loop.run(signal)
  expect([served, every()]).toEqual([[], 600_000])
  server.answer((_request, response) => json(response, 202, { accepted: 0, refused: 0 }))
  await loop.run(signal)
  expect([served, every()]).toEqual([[true], Number.POSITIVE_INFINITY])
  server.answer((_request, response) => json(response, 404, {}))
  ring.add({ is: 'pod_log_line', stackId, body: {} })
  await loop.run(signal)
  expect([served, ring.isEmpty]).toEqual([[true, false], true])
})

test('a log beyond the limit of followed logs is reported as a gap', async () => {
  const { ring, shared } = sources()
  const logs = startPodLogs({ ...shared, linesPerSecond: 5, followersMax: 0 })
  closeAfter(() => logs.stop())
  const gap = () => ring.take({ count: 1_000, bytes: 1_000_000 }).gaps.find(({ reason }) => reason === 'buffer_full')
  expect(await waitFor('the gap', gap, { limitMs: 30_000 })).toMatchObject({ stack_id: stackId })
})

test('log lines of an annotated pod are followed at its rate, and the excess is counted', async () => {
  const { ring, shared } = sources()
  const logs = startPodLogs({ ...shared, linesPerSecond: 5 })
  closeAfter(() => logs.stop())
  const word = randomUUID()
  let count = 0
  const writing = setInterval(
    () =>
      void appendFile(
        at.podLogPath,
        Array.from({ length: 50 }, () => `${new Date().toISOString()} stdout F ${word} ${count++}\n`).join(''),
      ),
    100,
  )
  try {
    const { body } = await seen(ring, (item) => String(item.body['line']).includes(word))
    expect(body).toMatchObject({ stack_id: stackId, namespace, container: 'c' })
    await waitFor(
      'the gap',
      () =>
        ring
          .take({ count: 1_000, bytes: 1_000_000 })
          .gaps.find(({ reason, dropped_count }) => reason === 'rate_limit' && dropped_count > 10),
      {
        limitMs: 30_000,
      },
    )
  } finally {
    clearInterval(writing)
  }
}, 120_000)

test('telemetry is sent in batches, and only once to a broker without telemetry', async () => {
  const { ring } = sources()
  for (let n = 0; n < 1_200; n++) ring.add({ is: 'pod_log_line', stackId, body: { n } })
  ring.drop(stackId, 'rate_limit', 3)
  const server = await scriptedBroker((_request, response) => json(response, 202, { accepted: 1, refused: 0 }))
  const loop = telemetryLoop({
    broker: await server.connect(),
    pak: () => 'p',
    agentId: world.agentId as never,
    ring,
    now: () => 0,
    everyMs: 1_000,
  })
  await loop.run(signal)
  const bodies = server.requests.map(({ body }) => JSON.parse(body) as { pod_log_lines: unknown[]; log_gaps: unknown[] })
  expect(bodies.map((body) => [body.pod_log_lines.length, body.log_gaps.length])).toEqual([
    [500, 1],
    [500, 0],
    [200, 0],
  ])
  server.answer((_request, response) => json(response, 404, {}))
  ring.add({ is: 'pod_log_line', stackId, body: {} })
  await loop.run(signal)
  expect([ring.isEmpty, server.requests.length]).toEqual([true, 4])
  server.answer((_request, response) => json(response, 503, {}))
  ring.add({ is: 'pod_log_line', stackId, body: {} })
  await expect(loop.run(signal)).rejects.toThrow('503')
  expect(ring.size).toBe(1)
})
