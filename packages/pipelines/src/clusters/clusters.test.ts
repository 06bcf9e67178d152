import { existsSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { FIELD_MANAGER, PIPELINE } from '@brokkr/contract/pipelines/fields.ts'
import type { KubeConfig } from '@brokkr/kube'
import { startFaultProxy } from '@brokkr/testing/faults/fault-proxy.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { defaultControllerSettings } from '../controller/controller.ts'
import { openApiProxy } from '../test-parts/api-proxy.ts'
import {
  closeServer,
  ensureNamespace,
  fastSettings,
  HELM_RELEASE,
  KUSTOMIZATION,
  kubeconfigFor,
  openLeaf,
  openManagement,
  openPipeline,
  type Server,
  setApp,
  setCluster,
  setClusterReady,
  setRelease,
  startTestController,
} from '../test-parts/world.ts'
import type { RemoteTimes } from './remote-cluster.ts'

let management: Server
let leaf: Server
let controller: ReturnType<typeof startTestController>

beforeAll(async () => {
  ;[management, leaf] = await Promise.all([openManagement(), openLeaf()])
  controller = startTestController(management)
}, 240_000)

afterAll(async () => {
  await controller?.stop()
  await Promise.all([closeServer(management), closeServer(leaf)])
})

const dev = (more: object = {}) => ({ environments: [{ name: 'dev', targets: [{ namespace: '', ...more }] }] })
const onLeaf = { clusterRef: { kind: 'GitopsCluster', name: 'leaf' } } as const
const pemOf = ({ ca }: KubeConfig): string | undefined => (ca && 'pem' in ca ? ca.pem : undefined)
const reasons = (events: { reason: string }[]): string[] => events.map(({ reason }) => reason)

test('[P1] a Pipeline under Webhook follows its cluster object from absent to ready', async () => {
  const pipeline = await openPipeline(management, { ...dev(onLeaf), policy: { trigger: 'Webhook' } })
  const { metadata } = await pipeline.create()
  const named = `GitopsCluster ${pipeline.namespace}/leaf`
  expect((await pipeline.waitForReady('TargetClusterNotFound')).message).toContain(named)
  const [first] = await waitFor('an event', async () => (await pipeline.events()).length > 0 && pipeline.events())
  expect(first).toMatchObject({ type: 'Warning', reason: 'GetClusterError', message: expect.stringContaining('not found') as string })
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, {})
  expect((await pipeline.waitForReady('TargetClusterNotReady')).message).toContain(named)
  await setClusterReady(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, true)
  await pipeline.waitForReady('ReconciliationSucceeded')
  const { generation, annotations } = await pipeline.read()
  expect([generation, annotations]).toEqual([metadata.generation, {}])
})

test('[P2] a Pipeline under Webhook with a ready cluster is ready, and its first event says so', async () => {
  const pipeline = await openPipeline(management, { ...dev(onLeaf), policy: { trigger: 'Webhook' } })
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, { ready: true })
  // Another Pipeline shows that the controller's watch has delivered the cluster.
  const earlier = await openPipeline(
    management,
    { ...dev(onLeaf), policy: { trigger: 'Webhook' } },
    { namespace: pipeline.namespace, name: 'earlier' },
  )
  await earlier.create()
  await earlier.waitForReady('ReconciliationSucceeded')
  await pipeline.create()
  await pipeline.waitForReady('ReconciliationSucceeded')
  const events = await waitFor('an event', async () => {
    const own = (await pipeline.events()).filter(({ object }) => object === pipeline.name)
    return own.length > 0 && own
  })
  expect(events[0]).toMatchObject({ reason: 'Updated', type: 'Normal', message: expect.stringMatching(/^Updated pipeline/) })
  expect(events.filter(({ type }) => type === 'Warning')).toEqual([])
})

test('[P3] a Pipeline under Watch is not readable while its cluster is absent or not ready', async () => {
  const pipeline = await openPipeline(management, dev(onLeaf))
  await pipeline.create()
  await pipeline.waitForReady('TargetNotReadable')
  await waitFor('an event', async () => reasons(await pipeline.events()).includes('GetClusterError'))
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, { ready: false })
  await pipeline.waitForTarget('dev', { error: /is not ready/ })
  expect((await pipeline.condition('Ready'))?.reason).toBe('TargetNotReadable')
})

test('[P4] a release without a status is read: not ready, no error', async () => {
  const pipeline = await openPipeline(management, dev())
  await setApp(management.kube, HELM_RELEASE, pipeline)
  await pipeline.create()
  await pipeline.waitForReady('ReconciliationSucceeded')
  await pipeline.waitForTarget('dev', { ready: false, error: null })
  await waitFor('an event', async () => reasons(await pipeline.events()).includes('Updated'))
})

test('[P5] an application that appears and becomes ready is followed', async () => {
  const pipeline = await openPipeline(management, dev())
  await pipeline.create()
  await pipeline.waitForReady('TargetNotReadable')
  const [first] = await waitFor('an event', async () => (await pipeline.events()).length > 0 && pipeline.events())
  expect(first).toMatchObject({ type: 'Warning', reason: 'GetAppError', message: expect.stringContaining('not found') as string })
  await setApp(management.kube, HELM_RELEASE, pipeline)
  await pipeline.waitForReady('ReconciliationSucceeded')
  await pipeline.waitForTarget('dev', { ready: false, error: null })
  expect((await pipeline.read()).status.run).toBeUndefined()
  await setRelease(management.kube, pipeline.namespace, '1.0.0')
  // By the watch: the full scan comes after minutes.
  await pipeline.waitForTarget('dev', { ready: true, revision: '1.0.0' }, 10_000)
  expect(fastSettings.resyncMs).toBeGreaterThan(60_000)
})

test('[P6] a Kustomization is followed like a release', async () => {
  const pipeline = await openPipeline(management, { ...dev(), appRef: { ...KUSTOMIZATION, name: 'podinfo' } })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { error: /not found/ })
  await setApp(management.kube, KUSTOMIZATION, pipeline)
  await pipeline.waitForReady('ReconciliationSucceeded')
  await pipeline.waitForTarget('dev', { ready: false, error: null })
  await setApp(management.kube, KUSTOMIZATION, pipeline, {
    conditions: [{ type: 'Ready', status: 'True' }],
    lastAppliedRevision: 'main@sha1:abc',
  })
  await pipeline.waitForTarget('dev', { ready: true, revision: 'main@sha1:abc' })
})

test('[P7] an application in a leaf cluster is followed by the watch there', async () => {
  const pipeline = await openPipeline(management, dev(onLeaf))
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, { kubeconfig: leaf.kubeconfig, ready: true })
  await pipeline.create()
  await pipeline.waitForReady('TargetNotReadable')
  await pipeline.waitForTarget('dev', { error: /not found/ })
  await ensureNamespace(leaf.kube, pipeline.namespace)
  await setApp(leaf.kube, HELM_RELEASE, pipeline)
  await pipeline.waitForReady('ReconciliationSucceeded')
  await setRelease(leaf.kube, pipeline.namespace, '1.0.0')
  await pipeline.waitForTarget('dev', { ready: true, revision: '1.0.0', error: null })
})

test.each([
  ['under value', { key: 'value' }],
  ['under value.yaml', { key: 'value.yaml' }],
  ['in a Cluster API Secret', { key: 'value', capi: true }],
])('[P8] a kubeconfig %s is used', async (_what, options) => {
  const pipeline = await openPipeline(management, dev(onLeaf))
  await ensureNamespace(leaf.kube, pipeline.namespace)
  await setRelease(leaf.kube, pipeline.namespace, '2.0.0')
  await setCluster(
    management.kube,
    { namespace: pipeline.namespace, name: 'leaf' },
    { kubeconfig: leaf.kubeconfig, ready: true, ...options },
  )
  await pipeline.create()
  await pipeline.waitForTarget('dev', { ready: true, revision: '2.0.0' })
})

test.each([false, true])('[P9] the watch of a kind ends with its last Pipeline (object present: %s)', async (isPresent) => {
  const FAKE = { apiVersion: 'example.com/v1', kind: 'Fake' }
  const pipeline = await openPipeline(management, { ...dev(), appRef: { ...FAKE, name: 'podinfo' } })
  if (isPresent) await setApp(management.kube, FAKE, pipeline)
  const isWatched = async () => (await controller.metrics.text()).includes('brokkr_pipelines_watches{cluster="local",kind="Fake"} 1')
  await pipeline.create()
  await waitFor('the watch in the metric', isWatched)
  await pipeline.delete()
  await waitFor('the watch to be gone', async () => !(await isWatched()))
  expect(defaultControllerSettings.clusters.collectAfterMs).toBeLessThan(5_000)
})

/** Replaces the controller of the file for one test. */
async function withTimes(times: Partial<RemoteTimes>): Promise<void> {
  await controller.stop()
  controller = startTestController(management, { settings: { clusters: { ...fastSettings.clusters, ...times } } })
  onTestFinished(async () => {
    await controller.stop()
    controller = startTestController(management)
  })
}

test('[P10] [P30] a leaf cluster that is cut off delays promotions until it is back', async () => {
  await withTimes({ staleMs: 2_000 })
  const pipeline = await openPipeline(management, {
    environments: [
      { name: 'dev', targets: [{ namespace: '' }] },
      { name: 'prod', targets: [{ namespace: '', ...onLeaf }] },
    ],
    promotion: { strategy: { notification: {} } },
  })
  const proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(leaf.plane.url).port) } })
  onTestFinished(() => proxy.close())
  const kubeconfig = kubeconfigFor(`https://127.0.0.1:${proxy.port}`, `{ token: "${leaf.plane.token}" }`, leaf.plane.caPem)
  await ensureNamespace(leaf.kube, pipeline.namespace)
  await setRelease(leaf.kube, pipeline.namespace, '1.0.0')
  await setRelease(management.kube, pipeline.namespace, '1.0.0')
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, { kubeconfig, ready: true })
  await pipeline.create()
  await pipeline.waitForTarget('prod', { ready: true, revision: '1.0.0' })
  proxy.cut()
  await pipeline.waitForTarget('prod', { error: /not reachable since/ })
  await setRelease(management.kube, pipeline.namespace, '1.0.1')
  await pipeline.waitForPending('TargetNotReadable')
  // Several times the limit of contact: connections are tried again and fail, and passes run.
  const tries = () => proxy.connections.total
  const before = tries()
  await waitFor('three more connections', () => tries() >= before + 3)
  for (let count = 0; count < 20; count++) {
    controller.wake(pipeline.key)
    await controller.whenIdle()
  }
  expect([await pipeline.promotions(), (await pipeline.target('prod'))?.ready]).toEqual([[], false])
  expect((await pipeline.condition('Ready'))?.reason).toBe('TargetNotReadable')
  proxy.heal()
  await waitFor('the promotion', async () => (await pipeline.phases())[0] === '2 prod 1.0.1 Applied')
  await pipeline.waitForTarget('prod', { ready: true, revision: '1.0.0', error: null })
  // With the shipped settings the error is shown within 90 s.
  const { staleMs, probeEveryMs } = defaultControllerSettings.clusters
  expect(staleMs + probeEveryMs).toBeLessThanOrEqual(90_000)
})

test('[P81] what changed in a leaf cluster while no controller ran is promoted once, and nothing is written there', async () => {
  const pipeline = await openPipeline(management, {
    environments: [
      { name: 'dev', targets: [{ namespace: '', ...onLeaf }] },
      { name: 'prod', targets: [{ namespace: '' }] },
    ],
    promotion: { strategy: { notification: {} } },
  })
  const between = await openApiProxy(leaf.plane)
  const writes: string[] = []
  between.decide(({ method, path }) => {
    if (method !== 'GET' && !path.endsWith('/selfsubjectaccessreviews')) writes.push(`${method} ${path}`)
    return 'pass'
  })
  const kubeconfig = kubeconfigFor(between.config.server, `{ token: "${leaf.plane.token}" }`, pemOf(between.config))
  await ensureNamespace(leaf.kube, pipeline.namespace)
  await setRelease(leaf.kube, pipeline.namespace, '1.0.0')
  await setRelease(management.kube, pipeline.namespace, '1.0.0')
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, { kubeconfig, ready: true })
  await pipeline.createSettled('1.0.0')
  await waitFor('run 1', async () => (await pipeline.read()).status.run?.number === 1)
  await controller.stop()
  await setRelease(leaf.kube, pipeline.namespace, '1.0.1')
  controller = startTestController(management)
  await pipeline.waitForPhases('2 prod 1.0.1 Applied')
  for (let count = 0; count < 20; count++) {
    controller.wake(pipeline.key)
    await controller.whenIdle()
  }
  expect([await pipeline.phases(), reasons(await pipeline.events()).filter((reason) => reason === 'Promote')]).toEqual([
    ['2 prod 1.0.1 Applied'],
    ['Promote'],
  ])
  expect(writes).toEqual([])
})

test('[P11] a watch that ends with 410 is listed again and the target is never absent', async () => {
  const pipeline = await openPipeline(management, dev(onLeaf))
  const between = await openApiProxy(leaf.plane)
  await ensureNamespace(leaf.kube, pipeline.namespace)
  await setRelease(leaf.kube, pipeline.namespace, '1.0.0')
  const kubeconfig = kubeconfigFor(between.config.server, `{ token: "${leaf.plane.token}" }`, pemOf(between.config))
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, { kubeconfig, ready: true })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { ready: true, revision: '1.0.0' })
  const errors: string[] = []
  const watching = setInterval(() => void pipeline.target('dev').then((target) => target?.error && errors.push(target.error)), 20)
  const opened = between.opened()
  between.spoil(
    '{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","code":410,"message":"too old"}}\n',
  )
  await setRelease(leaf.kube, pipeline.namespace, '1.0.1')
  await pipeline.waitForTarget('dev', { ready: true, revision: '1.0.1' })
  clearInterval(watching)
  await waitFor('another watch', () => between.opened() > opened)
  expect(errors).toEqual([])
})

test('[P12] a kubeconfig with an exec plugin is refused and nothing is executed', async () => {
  const pipeline = await openPipeline(management, dev(onLeaf))
  const trace = join(await mkdtemp(join(tmpdir(), 'pipelines-exec-')), 'ran')
  const user = `{ exec: { apiVersion: client.authentication.k8s.io/v1, command: /usr/bin/touch, args: ["${trace}"] } }`
  const kubeconfig = kubeconfigFor(leaf.plane.url, user, leaf.plane.caPem)
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, { kubeconfig, ready: true })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { error: /KubeconfigUnsafe/ })
  expect(existsSync(trace)).toBe(false)
})

const ready = [{ type: 'Ready', status: 'True' }]
const history = [
  { version: 2, status: 'superseded', chartVersion: '6.0.0' },
  { version: 3, status: 'deployed', chartVersion: '6.0.1' },
]

test('[P13] the deployed history entry of a release is its revision', async () => {
  const pipeline = await openPipeline(management, dev())
  await setApp(management.kube, HELM_RELEASE, pipeline, { conditions: ready, history })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { ready: true, revision: '6.0.1' })
  const failed = [...history, { version: 4, status: 'failed', chartVersion: '6.0.2' }]
  await setApp(management.kube, HELM_RELEASE, pipeline, { conditions: [{ type: 'Ready', status: 'False' }], history: failed })
  await pipeline.waitForTarget('dev', { ready: false, revision: '6.0.1' })
})

test('[P14] a suspended release is not ready and starts no run', async () => {
  const pipeline = await openPipeline(management, dev())
  await setApp(management.kube, HELM_RELEASE, pipeline, { conditions: ready, history }, { suspend: true })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { ready: false, error: /suspended/ })
  expect((await pipeline.read()).status.run).toBeUndefined()
})

test('[P15] an object that is ready without a revision is not ready, with an error', async () => {
  const pipeline = await openPipeline(management, dev())
  await setApp(management.kube, HELM_RELEASE, pipeline, { conditions: ready })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { ready: false, error: /without a revision/ })
})

test('[P16] an Argo CD Application is ready only on a comparison that is current', async () => {
  const APPLICATION = { apiVersion: 'argoproj.io/v1alpha1', kind: 'Application' }
  const pipeline = await openPipeline(management, { ...dev(), appRef: { ...APPLICATION, name: 'podinfo' } })
  const source = { repoURL: 'https://example.com/r', path: '.' }
  const at = { ...APPLICATION, namespace: pipeline.namespace, name: 'podinfo' }
  const status = {
    sync: { status: 'Synced', revision: 'abc', comparedTo: { source } },
    health: { status: 'Healthy' },
    reconciledAt: '2026-01-01T00:00:10Z',
  }
  const patch = (body: Record<string, unknown>) => management.kube.patch(at, { type: 'merge', body })
  await management.kube.create({ ...APPLICATION, metadata: { namespace: at.namespace, name: at.name }, spec: { source }, status })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { ready: true, revision: 'abc' })
  await patch({ operation: { sync: {} } })
  await pipeline.waitForTarget('dev', { ready: false, revision: 'abc' })
  await patch({ operation: null })
  await pipeline.waitForTarget('dev', { ready: true })
  await patch({ status: { operationState: { phase: 'Succeeded', finishedAt: '2026-01-01T00:00:11Z' } } })
  await pipeline.waitForTarget('dev', { ready: false })
})

test.each([
  [
    'Deployment',
    { updatedReplicas: 1, replicas: 3, readyReplicas: 2, availableReplicas: 2 },
    { updatedReplicas: 2, replicas: 2, readyReplicas: 2, availableReplicas: 2 },
  ],
  [
    'StatefulSet',
    { updatedReplicas: 1, replicas: 2, readyReplicas: 2, availableReplicas: 2, currentRevision: 'a', updateRevision: 'b' },
    { updatedReplicas: 2, replicas: 2, readyReplicas: 2, availableReplicas: 2, currentRevision: 'b', updateRevision: 'b' },
  ],
  [
    'DaemonSet',
    {
      desiredNumberScheduled: 2,
      updatedNumberScheduled: 1,
      numberAvailable: 2,
      currentNumberScheduled: 2,
      numberMisscheduled: 0,
      numberReady: 2,
    },
    {
      desiredNumberScheduled: 2,
      updatedNumberScheduled: 2,
      numberAvailable: 2,
      currentNumberScheduled: 2,
      numberMisscheduled: 0,
      numberReady: 2,
    },
  ],
])('[P17] a %s is ready on its tag when its rollout is complete', async (kind, rolling, complete) => {
  const KIND = { apiVersion: 'apps/v1', kind }
  const pipeline = await openPipeline(management, { ...dev(), appRef: { ...KIND, name: 'podinfo' } })
  const template = { metadata: { labels: { app: 'podinfo' } }, spec: { containers: [{ name: 'main', image: 'example.com/podinfo:v2' }] } }
  const replicas = kind === 'DaemonSet' ? {} : { replicas: 2 }
  await setApp(management.kube, KIND, pipeline, rolling, {
    ...replicas,
    selector: { matchLabels: { app: 'podinfo' } },
    template,
    ...(kind === 'StatefulSet' ? { serviceName: 's' } : {}),
  })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { ready: false, revision: 'v2' })
  await setApp(management.kube, KIND, pipeline, complete)
  await pipeline.waitForTarget('dev', { ready: true, revision: 'v2' })
  if (kind !== 'Deployment') return
  const at = { ...KIND, namespace: pipeline.namespace, name: 'podinfo' }
  await management.kube.patch(at, { type: 'merge', body: { spec: { replicas: 0 } } })
  await setApp(management.kube, KIND, pipeline, { replicas: 0, updatedReplicas: 0, readyReplicas: 0, availableReplicas: 0 })
  await pipeline.waitForTarget('dev', { ready: false, error: null })
  await management.kube.patch(at, {
    type: 'strategic',
    body: { spec: { template: { spec: { containers: [{ name: 'main', image: 'example.com/podinfo' }] } } } },
  })
  await setApp(management.kube, KIND, pipeline, {})
  await pipeline.waitForTarget('dev', { ready: false, error: /neither a tag nor a digest/ })
})

test('a rotated kubeconfig replaces the connection without a gap', async () => {
  const pipeline = await openPipeline(management, dev(onLeaf))
  await ensureNamespace(leaf.kube, pipeline.namespace)
  await setRelease(leaf.kube, pipeline.namespace, '1.0.0')
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, { kubeconfig: leaf.kubeconfig, ready: true })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { ready: true, revision: '1.0.0' })
  const secret = { apiVersion: 'v1', kind: 'Secret', namespace: pipeline.namespace, name: 'leaf-access' }
  const rotate = (text: string) =>
    management.kube.patch(secret, { type: 'merge', body: { data: { kubeconfig: Buffer.from(text).toString('base64') } } })
  const errors: string[] = []
  const watching = setInterval(() => void pipeline.target('dev').then((target) => target?.error && errors.push(target.error)), 20)
  await rotate(`${leaf.kubeconfig}\n# rotated\n`)
  await setRelease(leaf.kube, pipeline.namespace, '1.0.1')
  await pipeline.waitForTarget('dev', { ready: true, revision: '1.0.1' })
  clearInterval(watching)
  expect(errors).toEqual([])
})

/** A Pipeline with one target in the leaf cluster, ready on 1.0.0, and its kubeconfig Secret. */
async function openLeafPipeline() {
  const pipeline = await openPipeline(management, dev(onLeaf))
  await ensureNamespace(leaf.kube, pipeline.namespace)
  await setRelease(leaf.kube, pipeline.namespace, '1.0.0')
  await setCluster(management.kube, { namespace: pipeline.namespace, name: 'leaf' }, { kubeconfig: leaf.kubeconfig, ready: true })
  await pipeline.create()
  await pipeline.waitForTarget('dev', { ready: true, revision: '1.0.0' })
  const secret = { apiVersion: 'v1', kind: 'Secret', namespace: pipeline.namespace, name: 'leaf-access' }
  const rotate = (text: string) =>
    management.kube.patch(secret, { type: 'merge', body: { data: { kubeconfig: Buffer.from(text).toString('base64') } } })
  return { ...pipeline, rotate }
}

test('a kubeconfig Secret that is corrected in time keeps its cluster', async () => {
  await withTimes({ rotationMs: 1_000 })
  const pipeline = await openLeafPipeline()
  await pipeline.rotate('no kubeconfig')
  await pipeline.rotate(leaf.kubeconfig)
  const correctedMs = Date.now()
  await waitFor('the end of the time limit', () => Date.now() > correctedMs + 1_500)
  await setRelease(leaf.kube, pipeline.namespace, '1.0.1')
  await pipeline.waitForTarget('dev', { ready: true, revision: '1.0.1', error: null })
})

test('a rotated kubeconfig whose cluster answers late is used as soon as it does', async () => {
  await withTimes({ rotationMs: 300 })
  const pipeline = await openLeafPipeline()
  const proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(leaf.plane.url).port) } })
  onTestFinished(() => proxy.close())
  proxy.cut()
  await pipeline.rotate(kubeconfigFor(`https://127.0.0.1:${proxy.port}`, `{ token: "${leaf.plane.token}" }`, leaf.plane.caPem))
  await pipeline.waitForTarget('dev', { error: /not reachable/ })
  proxy.heal()
  await setRelease(leaf.kube, pipeline.namespace, '1.0.1')
  await pipeline.waitForTarget('dev', { ready: true, revision: '1.0.1', error: null })
})

test('[P24] the API server refuses a name twice, two strategies and an unknown forge', async () => {
  const namespace = await management.plane.namespace()
  const pull = { type: 'github', url: 'https://example.com/a/b', baseBranch: 'main', secretRef: { name: 's' } }
  const appRef = { ...HELM_RELEASE, name: 'x' }
  const specs = [
    {
      appRef,
      environments: [
        { name: 'a', targets: [] },
        { name: 'a', targets: [] },
      ],
    },
    { appRef, environments: [{ name: 'a', targets: [] }], promotion: { strategy: { notification: {}, 'pull-request': pull } } },
    { appRef, environments: [{ name: 'a', targets: [] }], promotion: { strategy: { 'pull-request': { ...pull, type: 'subversion' } } } },
    { appRef, environments: [] },
  ]
  for (const [index, spec] of specs.entries())
    await expect(
      management.kube.create({ ...PIPELINE, metadata: { namespace, name: `p${index}` }, spec }, { fieldManager: FIELD_MANAGER }),
    ).rejects.toMatchObject({ reason: 'Invalid' })
})
