import { randomUUID } from 'node:crypto'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { issueCertificate } from '@brokkr/runtime/certificates.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, onTestFinished, test } from 'vitest'
import { type AgentOptions, type AgentWorld, manifest, startAgentWorld } from '../../test-parts/agent-world.ts'
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
import { applyOrder, prepareOrder } from '../../work-orders/apply-order.ts'
import { createClaimStore } from '../../work-orders/claim-store.ts'

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

const again = async (options: AgentOptions) => {
  await agent.stop()
  agent = await startAgentWorld(world, options)
}
const map = (name: string, data: Record<string, unknown> = {}, metadata: object = {}) => configMap(namespace, name, data, metadata)
const find = (name: string) => world.kube.find({ ...CONFIG_MAP, namespace, name })
const web = () => ({ apiVersion: 'apps/v1', kind: 'Deployment', namespace, name: 'web' })
const replicas = async () => (await world.kube.get(web())).spec?.['replicas']
const scale = (count: number, manager: string) =>
  world.kube.request('PATCH', `/apis/apps/v1/namespaces/${namespace}/deployments/web/scale`, {
    query: { fieldManager: manager },
    body: { spec: { replicas: count } },
    contentType: 'application/merge-patch+json',
  })
const edit = (name: string, data: object, manager = 'kubectl-edit') =>
  world.kube.patch({ ...CONFIG_MAP, namespace, name }, { type: 'merge', body: { data } }, { fieldManager: manager })
/** The watch of a kind is in order: once it has shown this deletion, it has shown everything before. */
async function watchIsHere(): Promise<void> {
  const before = (await find('sentinel'))?.metadata.uid
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'sentinel' })
  await waitFor('the sentinel to be healed', async () => ((await find('sentinel'))?.metadata.uid ?? before) !== before)
}
const driftsOf = (name: string) => agent.events('DRIFT').filter(({ changes }) => changes?.some((change) => change.name === name))

test('[A14] drift of replicas is healed, or only reported, with field and manager', async () => {
  agent.list(put(1, 1, manifest(deployment(namespace, 'web', 0))))
  await agent.reported(1, 'applied', 1)
  await scale(3, 'kubectl-scale')
  const healed = await agent.event('DRIFT')
  expect(healed).toMatchObject({ status: 'SUCCESS', message: 'healed 1 field', sequence_id: 1 })
  expect(healed.changes).toMatchObject([
    {
      group: 'apps',
      kind: 'Deployment',
      namespace,
      name: 'web',
      path: '/spec/replicas',
      manager: 'kubectl-scale',
      operation: 'Update',
    },
  ])
  expect(await replicas()).toBe(0)

  agent.live(put(1, 2, manifest(deployment(namespace, 'web', 0)), { drift: 'report' }))
  await agent.reported(1, 'applied', 2)
  await scale(2, 'kubectl-scale')
  const told = await agent.event('DRIFT', ({ status }) => status === 'FAILURE')
  expect(told.changes).toMatchObject([{ path: '/spec/replicas', manager: 'kubectl-scale' }])
  expect(await agent.reported(1, 'applied', 2, 'drifted')).toMatchObject({ message: expect.stringContaining('/spec/replicas') })
  const looks = agent.ended.length
  agent.controller.reconcileAll()
  await waitFor('another look', () => agent.ended.length > looks)
  expect(agent.events('DRIFT').filter(({ status }) => status === 'FAILURE')).toHaveLength(1)
  expect(await replicas()).toBe(2)
  // Back by the other hand: the row says so again.
  await scale(0, 'kubectl-scale')
  await agent.reported(1, 'applied', 2, null)
})

test('[A14] drift is detected for a member whose status changes all the time', async () => {
  agent.list(put(1, 1, manifest(deployment(namespace, 'web', 0))))
  await agent.reported(1, 'applied', 1)
  let moves = 0
  // As busy as its controller could ever be: no two looks at it find the same version.
  world.recorder.intercept(async ({ method, path }) => {
    if (method !== 'GET' || !path.endsWith('/deployments/web')) return false
    const status = { collisionCount: (moves += 1) }
    await at.api('PATCH', `${path}/status`, { contentType: 'application/merge-patch+json', body: { status } })
    return false
  })
  await scale(3, 'kubectl-scale')
  const healed = await agent.event('DRIFT')
  world.recorder.intercept(null)
  expect(healed.changes).toMatchObject([{ name: 'web', path: '/spec/replicas', manager: 'kubectl-scale' }])
  expect(await replicas()).toBe(0)
  expect(moves).toBeGreaterThan(0)
})

test('drift report names a missing member once and does not create it; off checks nothing', async () => {
  agent.list(
    put(1, 1, manifest(map('a'), map('b')), { drift: 'report' }),
    put(2, 1, manifest(map('c', { x: '1' })), { drift: 'off' }),
    put(3, 1, manifest(map('sentinel'))),
  )
  await Promise.all([1, 2, 3].map((n) => agent.reported(n, 'applied', 1)))
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'a' })
  const told = await agent.event('DRIFT', ({ status }) => status === 'FAILURE')
  expect(told.changes).toMatchObject([{ name: 'a', manager: null }])
  await edit('c', { x: '2' })
  await watchIsHere()
  const looks = agent.ended.length
  agent.controller.reconcileAll()
  await waitFor('another look', () => agent.ended.length >= looks + 3)
  expect([await find('a'), (await find('c'))?.data]).toEqual([undefined, { x: '2' }])
  expect(driftsOf('a')).toHaveLength(1)
  expect(driftsOf('c')).toEqual([])
})

test('[A15] a deleted ConfigMap is created again, and its DRIFT event has no manager', async () => {
  agent.list(put(1, 1, manifest(map('a', { x: '1' }), map('b'))))
  await agent.reported(1, 'applied', 1)
  const before = await find('a')
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'a' })
  const event = await agent.event('DRIFT')
  expect(event).toMatchObject({ status: 'SUCCESS', changes: [{ kind: 'ConfigMap', name: 'a', manager: null }] })
  const after = await find('a')
  expect(after?.data).toEqual({ x: '1' })
  expect(after?.metadata.uid).not.toBe(before?.metadata.uid)
})

test('[A16] replicas set by an autoscaler of the stack are neither drift nor overwritten', async () => {
  const scaler = {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: 'web', namespace },
    spec: { scaleTargetRef: { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web' }, minReplicas: 1, maxReplicas: 9 },
  }
  const bundle = (image: string) => manifest(deployment(namespace, 'web', 2, image), scaler)
  agent.list(put(1, 1, bundle('example.invalid/web:1')), put(2, 1, manifest(map('sentinel'))))
  await Promise.all([agent.reported(1, 'applied', 1), agent.reported(2, 'applied', 1)])
  expect(await replicas()).toBe(2)
  // Nobody has scaled yet, so the number is still ours: a new sequence must let go of it, not take it away.
  agent.live(put(1, 2, bundle('example.invalid/web:2')))
  await agent.reported(1, 'applied', 2)
  expect(await replicas()).toBe(2)
  await scale(5, 'horizontal-pod-autoscaler')
  await watchIsHere()
  await waitFor('a look', async () => (await agent.drifts('none')) >= 1)
  expect(await replicas()).toBe(5)
  agent.live(put(1, 3, bundle('example.invalid/web:3')))
  await agent.reported(1, 'applied', 3)
  expect(await replicas()).toBe(5)
  agent.controller.verify(put(1, 3).stack_id)
  const looks = agent.ended.length
  await waitFor('the verification', () => agent.ended.length > looks)
  expect(driftsOf('web')).toEqual([])
})

test('[A17] a default added by a mutating webhook is not drift', async () => {
  const { url, caBundle } = await defaultingWebhook()
  await world.kube.create({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'MutatingWebhookConfiguration',
    metadata: { name: namespace },
    webhooks: [
      {
        name: 'default.example.com',
        clientConfig: { url, caBundle },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: ['configmaps'] }],
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } },
        admissionReviewVersions: ['v1'],
        sideEffects: 'None',
      },
    ],
  })
  onTestFinished(async () => {
    const kind = { apiVersion: 'admissionregistration.k8s.io/v1', kind: 'MutatingWebhookConfiguration' }
    await world.kube.delete({ ...kind, name: namespace })
  })
  await waitFor('the webhook to be asked', async () => {
    const probe = map('probe')
    return (await world.kube.create(probe, { dryRun: true })).data?.['added'] === 'by-webhook'
  })
  agent.list(put(1, 1, manifest(map('a', { x: '1' }))), put(2, 1, manifest(map('sentinel'))))
  await Promise.all([agent.reported(1, 'applied', 1), agent.reported(2, 'applied', 1)])
  expect((await find('a'))?.data).toEqual({ x: '1', added: 'by-webhook' })
  // Somebody else's write brings the webhook's field up again, and a complete comparison looks at every field.
  await edit('a', { extra: '1' })
  await watchIsHere()
  const looks = agent.ended.length
  agent.controller.verify(put(1, 1).stack_id)
  await waitFor('the verification', () => agent.ended.length > looks)
  expect(driftsOf('a')).toEqual([])
})

test('[A18] healing backs off against a controller that resets a field, and reports it', async () => {
  // Ten minutes made a hundred times shorter: so the longest pause is three seconds instead of five minutes.
  const fightMs = 6_000
  await again({ fightMs })
  agent.list(put(1, 1, manifest(map('a', { x: 'ours' }), map('b', { x: 'ours' }))))
  await agent.reported(1, 'applied', 1)
  world.recorder.clear()
  const stop = new AbortController()
  const controller = (async () => {
    while (!stop.signal.aborted) {
      if ((await find('a'))?.data?.['x'] === 'ours') await edit('a', { x: 'theirs' }, 'rival-controller')
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })()
  const heals = () =>
    world.recorder.requests.filter(({ method, path, isDryRun }) => method === 'PATCH' && path.endsWith('/configmaps/a') && !isDryRun)
  const row = await agent.reported(1, 'applied', 1, 'drift_fight')
  expect(row.message).toMatch(/\/data\/x of ConfigMap .*\/a .*rival-controller/)
  await waitFor('healing at the longest pause', () => heals().length >= 9, { limitMs: 60_000 })
  // A neighbour does not wait for it.
  const askedMs = performance.now()
  await edit('b', { x: 'theirs' })
  await waitFor('b', async () => (await find('b'))?.data?.['x'] === 'ours')
  const tookMs = performance.now() - askedMs
  stop.abort()
  await controller
  const times = heals().map(({ atMs }) => atMs)
  const gaps = times.slice(1).map((atMs, index) => atMs - (times[index] ?? 0))
  expect(gaps.at(-1)).toBeGreaterThanOrEqual(fightMs / 2 - 100)
  expect(gaps.slice(0, 3).every((ms) => ms < fightMs / 2 - 100)).toBe(true)
  expect(tookMs).toBeLessThan(fightMs / 2)
})

test('[A55] fields that a work order sets and drops on a flow are not drift', async () => {
  const group = newGroup()
  agent.list(put(1, 1, manifest(widgetDefinition(group, { plural: 'dataflows', kind: 'DataFlow' }))), put(3, 1, manifest(map('sentinel'))))
  await agent.reported(1, 'applied', 1)
  const flow = { apiVersion: `${group}/v1`, kind: 'DataFlow', metadata: { name: 'orders', namespace }, spec: { source: { type: 'kafka' } } }
  agent.live(put(2, 1, manifest(flow)))
  await agent.reported(2, 'applied', 1)
  const ref = { apiVersion: `${group}/v1`, kind: 'DataFlow', namespace, name: 'orders' }
  const before = await world.kube.get(ref)
  const order = async (annotations: object) => {
    const { apiVersion, kind } = flow
    const yaml_content = JSON.stringify({ apiVersion, kind, metadata: { name: 'orders', namespace, ...annotations } })
    const given = {
      id: randomUUID() as never,
      work_type: 'custom',
      yaml_content,
      claim_timeout_seconds: 60,
      attempt: 1,
      claimedAtMs: Date.now(),
    }
    const claimed = createClaimStore({ kube: world.kube }, world.own, world.agentId)
    const deps = { ...agent.deps, claimed, log: silentLog, checkMs: 100, buildMs: 1_000, sendOutput: () => Promise.resolve() }
    const signal = AbortSignal.timeout(60_000)
    const prepared = await prepareOrder(deps, given, signal)
    if (!prepared.ok) throw new Error(prepared.result.message)
    expect(await applyOrder(deps, given, prepared.objects, signal)).toBeNull()
  }
  const paused = 'dataflow.dataflow.io/paused'
  await order({ annotations: { [paused]: 'true' } })
  const during = await world.kube.get(ref)
  expect(during.metadata.annotations?.[paused]).toBe('true')
  await order({})
  const after = await world.kube.get(ref)
  expect(after.metadata.annotations?.[paused]).toBeUndefined()
  for (const { spec, metadata } of [during, after]) {
    expect(spec).toEqual(before.spec)
    expect(metadata.labels).toEqual(before.metadata.labels)
  }
  agent.controller.verify(put(2, 1).stack_id)
  const looks = agent.ended.length
  await waitFor('the verification', () => agent.ended.length > looks)
  expect(driftsOf('orders')).toEqual([])
})

test('ignored fields are released with their value and not claimed again', async () => {
  const ignoring = (data: object, fields: string) =>
    map('a', data as Record<string, unknown>, { annotations: { 'brokkr.io/ignore-fields': fields } })
  agent.list(put(1, 1, manifest(map('a', { x: '1', y: '1' }), map('b'))))
  await agent.reported(1, 'applied', 1)
  agent.live(put(1, 2, manifest(ignoring({ x: '2', y: '2' }, '/data/x'), map('b'))))
  await agent.reported(1, 'applied', 2)
  expect((await find('a'))?.data).toEqual({ x: '1', y: '2' })
  await edit('a', { x: 'theirs', y: 'theirs' })
  const event = await agent.event('DRIFT')
  expect(event.changes?.map(({ path }) => path)).toEqual(['/data/y'])
  expect((await find('a'))?.data).toEqual({ x: 'theirs', y: '2' })
  agent.live(put(1, 3, manifest(ignoring({}, 'data/x'), map('b'))))
  expect(await agent.reported(1, 'failed', 3)).toMatchObject({ code: 'invalid', message: expect.stringContaining('"data/x"') })
})

test('the event of a deployment object lists changed paths without values', async () => {
  const secret = (value: string) => ({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 's', namespace }, stringData: { key: value } })
  agent.list(put(1, 1, manifest(map('a', { x: '1', same: '1' }), secret('canary-one'), map('b'))))
  await agent.reported(1, 'applied', 1)
  agent.live(put(1, 2, manifest(map('a', { x: '2', same: '1' }), secret('canary-two'), map('b'))))
  const event = await agent.event('UPDATED')
  expect(event.changes?.map(({ kind, name, path }) => `${kind} ${name} ${path}`)).toEqual([
    'ConfigMap a /data/x',
    'Secret s /stringData/key',
  ])
  expect(JSON.stringify(agent.events())).not.toContain('canary')
})

/** Adds data.added to every ConfigMap that lacks it. */
async function defaultingWebhook(): Promise<{ url: string; caBundle: string }> {
  const ca = await issueCertificate({ commonName: 'webhook', isCa: true })
  const server = createServer(
    await issueCertificate({ commonName: 'webhook', issuer: ca, usages: ['server'], hosts: ['127.0.0.1'] }),
    (from, to) => {
      const chunks: Buffer[] = []
      from.on('data', (chunk: Buffer) => chunks.push(chunk))
      from.on('end', () => {
        const { request } = JSON.parse(Buffer.concat(chunks).toString()) as { request: { uid: string; object: { data?: object } } }
        const patch = [
          ...(request.object.data ? [] : [{ op: 'add', path: '/data', value: {} }]),
          { op: 'add', path: '/data/added', value: 'by-webhook' },
        ]
        const response = {
          uid: request.uid,
          allowed: true,
          patchType: 'JSONPatch',
          patch: Buffer.from(JSON.stringify(patch)).toString('base64'),
        }
        to.writeHead(200, { 'content-type': 'application/json' })
        to.end(JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', response }))
      })
    },
  )
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return { url: `https://127.0.0.1:${(server.address() as AddressInfo).port}/default`, caBundle: Buffer.from(ca.cert).toString('base64') }
}
