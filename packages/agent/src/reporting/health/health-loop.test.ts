import type { HealthReport } from '@brokkr/contract/health/deployment-health.ts'
import type { NewAgentEvent } from '@brokkr/contract/reports/agent-event.ts'
import type { Kube, KubeObject } from '@brokkr/kube'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { nodes } from '@brokkr/testing/servers/nodes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AgentWorld, manifest, startAgentWorld } from '../../test-parts/agent-world.ts'
import { refuse } from '../../test-parts/api-recorder.ts'
import { objectId, put, stackId } from '../../test-parts/frames.ts'
import { configMap, deployment, type ReconcileWorld, reconcileWorld } from '../../test-parts/reconcile-world.ts'
import { type HealthDeps, type HealthLoop, healthLoop } from './health-loop.ts'

let at: Awaited<ReturnType<typeof cluster>>
let world: ReconcileWorld
let namespace: string
let agent: AgentWorld
let health: HealthLoop
let sent: HealthReport[]
let events: NewAgentEvent[]
let isBrokerAway: boolean
beforeAll(async () => {
  at = await cluster()
  await nodes(1)
})
beforeEach(async () => {
  world = await reconcileWorld(at)
  namespace = await at.namespace()
  agent = await startAgentWorld(world)
  sent = []
  events = []
  isBrokerAway = false
  health = loopOn(agent.deps.kube)
})
afterEach(() => agent.stop())

const loopOn = (kube: Kube, watched?: HealthDeps['watched']): HealthLoop =>
  healthLoop({
    kube,
    watched,
    agentId: world.agentId as never,
    policy: () => agent.deps.settings.policy,
    clock,
    log,
    running: () => agent.controller.listApplied(),
    send: (reports) => {
      if (isBrokerAway) return Promise.reject(new Error('away'))
      sent.push(...reports)
      return Promise.resolve()
    },
    event: (event) => void events.push(event),
    everyMs: () => 0.001,
    isEnabled: () => true,
  })
const signal = new AbortController().signal
const look = async (n = 1, rev = 1) => {
  await health.run(signal)
  return sent.findLast(({ id }) => id === objectId(n, rev))
}
const becomes = (status: string, is: (report: HealthReport) => boolean = () => true) =>
  waitFor(
    `the stack to be ${status}`,
    async () => {
      const report = await look()
      return report?.status === status && is(report) ? report : undefined
    },
    { limitMs: 60_000, onTimeout: () => JSON.stringify(sent.slice(-2)) },
  )
const pods = async () => (await world.kube.list({ apiVersion: 'v1', kind: 'Pod' }, { namespace })).items
const setStatus = (pod: KubeObject, status: object) =>
  world.kube.request('PATCH', `/api/v1/namespaces/${namespace}/pods/${pod.metadata.name}/status`, {
    body: { status },
    contentType: 'application/merge-patch+json',
  })
const outcome = (object: ReturnType<typeof deployment>, word: string) => {
  Object.assign(object.spec.template.metadata.labels, { 'practice.brokkr.io/outcome': word })
  return object
}
async function applied(...objects: readonly object[]): Promise<void> {
  agent.list(put(1, 1, manifest(...objects)))
  await agent.reported(1, 'applied', 1)
}

test.each([
  [
    'ImagePullBackOff',
    { containerStatuses: [{ name: 'main', state: { waiting: { reason: 'ImagePullBackOff', message: 'no such image' } } }] },
  ],
  ['CrashLoopBackOff', { containerStatuses: [{ name: 'main', state: { waiting: { reason: 'CrashLoopBackOff' } }, restartCount: 5 }] }],
  ['OOMKilled', { containerStatuses: [{ name: 'main', state: { terminated: { reason: 'OOMKilled', exitCode: 137 } } }] }],
  [
    'InitContainer:CrashLoopBackOff',
    { initContainerStatuses: [{ name: 'setup', state: { waiting: { reason: 'CrashLoopBackOff' } }, restartCount: 2 }] },
  ],
])('[A36] a pod in %s makes its stack degraded with that reason', async (reason, status) => {
  await applied(outcome(deployment(namespace, 'web', 1), 'pending'))
  const [pod] = await waitFor('the pod', async () => {
    const all = await pods()
    return all.length === 1 ? all : undefined
  })
  const complete = Object.fromEntries(
    Object.entries(status).map(([key, rows]) => [
      key,
      (rows as object[]).map((row) => ({ image: 'x', imageID: '', ready: false, restartCount: 0, ...row })),
    ]),
  )
  await setStatus(pod as KubeObject, complete)
  const report = await becomes('degraded', ({ summary }) => summary?.conditions.includes(reason) === true)
  expect(report.summary?.conditions).toEqual([reason])
  expect(report.summary?.progressing).toBe(false)
  expect(report.summary).toMatchObject({ pods_ready: 0, pods_total: 1, resources: [{ kind: 'Deployment', ready: false }] })
})

test('[A37] a pending pod is degraded; a rollout past its deadline is failing', async () => {
  const web = outcome(deployment(namespace, 'web', 1), 'pending')
  await applied({ ...web, spec: { ...web.spec, progressDeadlineSeconds: 2 } })
  const report = await becomes('degraded', ({ summary }) => summary?.pods_total === 1)
  expect(report.summary?.progressing).toBe(true)
  expect(sent.map(({ status }) => status)).not.toContain('healthy')
  const failing = await becomes('failing')
  expect(failing.summary?.conditions).toEqual(['ProgressDeadlineExceeded'])
  expect(events.map(({ event_type, status }) => `${event_type} ${status}`)).toEqual(['HEALTH_CHECK SUCCESS', 'HEALTH_CHECK FAILURE'])
  expect(JSON.parse(events[1]?.message ?? '')).toMatchObject({ status: 'failing', conditions: ['ProgressDeadlineExceeded'] })
})

test('[A38] an evicted pod beside a ready Deployment leaves it healthy', async () => {
  await applied(deployment(namespace, 'web', 2))
  await becomes('healthy', ({ summary }) => summary?.pods_ready === 2)
  const [evicted] = await pods()
  await setStatus(evicted as KubeObject, { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' })
  const report = await waitFor('the replacement', async () => {
    const all = await pods()
    const failed = all.filter(({ status }) => status?.['phase'] === 'Failed')
    if (all.length !== 3 || failed.length !== 1) return undefined
    const seen = await look()
    return seen?.status === 'healthy' && seen.summary?.pods_ready === 2 ? seen : undefined
  })
  expect(report).toMatchObject({ status: 'healthy', summary: { pods_total: 2, conditions: [] } })
})

test('[A39] a stack of ConfigMaps is healthy, and unknown if listing is forbidden', async () => {
  await applied(configMap(namespace, 'a'), configMap(namespace, 'b'))
  expect(await look()).toMatchObject({ status: 'healthy', summary: { pods_total: 0, conditions: [] } })
  health = loopOn(world.kube.with({ as: { user: 'nobody-at-all' } }))
  expect(await look()).toMatchObject({ status: 'unknown', summary: { conditions: ['Forbidden'] } })
  expect(sent.map(({ status }) => status)).toEqual(['healthy', 'unknown'])
})

test('[A39] a workload with unreadable ReplicaSets or Jobs is unknown, with the reason', async () => {
  const pod = { spec: { restartPolicy: 'Never', containers: [{ name: 'main', image: 'example.invalid/job:1' }] } }
  const cronJob = {
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: { name: 'nightly', namespace },
    spec: { schedule: '0 0 31 2 *', jobTemplate: { spec: { template: pod } } },
  }
  await applied(deployment(namespace, 'web', 0), cronJob)
  await becomes('healthy')
  for (const [plural, name, kind] of [
    ['replicasets', 'web', 'ReplicaSets'],
    ['jobs', 'nightly', 'Jobs'],
  ]) {
    world.recorder.intercept(({ path }, response) =>
      path.endsWith(`/namespaces/${namespace}/${plural}`) ? refuse(response, 403, 'Forbidden', `cannot list resource "${plural}"`) : false,
    )
    const report = await becomes('unknown')
    expect(report.summary).toMatchObject({ conditions: ['Forbidden'] })
    expect(report.summary?.resources?.filter(({ ready }) => !ready)).toMatchObject([
      { name, message: `Forbidden: its ${kind} cannot be read` },
    ])
    world.recorder.intercept(null)
    await becomes('healthy')
  }
})

test('unchanged health is reported once, and a failed report is sent later', async () => {
  await applied(configMap(namespace, 'a'), configMap(namespace, 'b'))
  isBrokerAway = true
  await look()
  isBrokerAway = false
  await look()
  await look()
  expect(sent.map(({ status }) => status)).toEqual(['healthy'])
  await agent.stop()
  await world.kube.delete({ apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'a' })
  const report = await look()
  expect(report).toMatchObject({
    status: 'degraded',
    summary: {
      conditions: ['Missing'],
      resources: [
        { name: 'a', ready: false },
        { name: 'b', ready: true },
      ],
    },
  })
})

test('members without status are judged from existing watches, and only others are listed', async () => {
  await applied(configMap(namespace, 'a'), configMap(namespace, 'b', {}, { finalizers: ['brokkr.io/test'] }))
  const { kube, members } = agent.deps
  const lists: string[] = []
  const pages: Kube['pages'] = (kind, options) => {
    lists.push(kind.kind)
    return kube.pages(kind, options)
  }
  let hidden = ''
  health = loopOn({ ...kube, pages }, (member) => (member.name === hidden ? undefined : agent.drift.findObserved(member)))
  await waitFor('the watch to show both', () => members.listMembers(stackId(1)).every((member) => agent.drift.findObserved(member)))
  isBrokerAway = true
  await look()
  isBrokerAway = false
  expect(await look()).toMatchObject({ status: 'healthy', summary: { resources: [{ name: 'a' }, { name: 'b' }] } })
  await look()
  expect([sent.length, lists]).toEqual([1, []])
  hidden = 'a'
  await look()
  expect(lists).toEqual(['ConfigMap'])
  hidden = ''
  const b = { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'b' }
  await world.kube.delete(b)
  const report = await becomes('degraded')
  expect(report.summary).toMatchObject({ conditions: ['Terminating'], progressing: true })
  expect(lists).toEqual(['ConfigMap'])
  await world.kube.patch(b, { type: 'merge', body: { metadata: { finalizers: null } } })
})

test('[X33] health reads nothing outside the allowed namespaces', async () => {
  const outside = await at.namespace()
  await applied(configMap(namespace, 'a'), configMap(outside, 'b'), deployment(outside, 'web', 0))
  const { settings } = agent.deps
  agent.deps.settings = { ...settings, policy: { ...settings.policy, allowedNamespaces: [namespace] } }
  // What else the agent does is at rest: every request from here on is one of health.
  await agent.stop()
  // What it had sent before it stopped arrives ahead of the answer to this.
  await agent.deps.kube.list({ apiVersion: 'v1', kind: 'ConfigMap' }, { namespace })
  world.recorder.clear()
  const report = await look()
  expect(report).toMatchObject({ status: 'unknown', summary: { conditions: ['Forbidden'] } })
  const paths = world.recorder.requests.map(({ path }) => path).filter((path) => !path.startsWith('/apis/discovery'))
  expect(paths.filter((path) => !path.includes(`/namespaces/${namespace}/`) && path.split('/').length > 3)).toEqual([])
})

test('the health check reads no Secret', async () => {
  await applied({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 's', namespace }, stringData: { key: 'canary-value' } })
  const bodies: string[] = []
  const { kube } = agent.deps
  health = loopOn({
    ...kube,
    pages: async function* pages(kind, options) {
      for await (const page of kube.pages(kind, options)) {
        bodies.push(JSON.stringify(page))
        yield page
      }
    },
  })
  expect(await look()).toMatchObject({ status: 'healthy' })
  expect(bodies.join('')).toContain('"Secret"')
  expect(bodies.join('')).not.toContain(Buffer.from('canary-value').toString('base64'))
})
