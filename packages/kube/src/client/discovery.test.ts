import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { type PrivateCluster, privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCredentials } from '../auth/credentials.ts'
import { loadKubeconfig } from '../auth/load-kubeconfig.ts'
import { createRequestLimiter } from '../http/request-limiter.ts'
import { createTransport, type Transport } from '../http/transport.ts'
import { CONFIG_MAP, openTestKube, widgetDefinition } from '../test-parts/open-test-kube.ts'
import { createDiscovery } from './discovery.ts'
import type { Kube } from './kube.ts'
import type { KubeError } from './kube-error.ts'

let plane: PrivateCluster
let kube: Kube
let transport: Transport
beforeAll(async () => {
  // A plane of its own: a group that does not answer would trouble the controllers of the shared one.
  plane = await privateCluster()
  kube = await openTestKube(plane)
  const config = await loadKubeconfig({ path: plane.kubeconfigPath, env: {} })
  const limiter = createRequestLimiter({ clock }, { inFlight: 8, qps: 0, burst: 1 })
  const deps = { config, credentials: createCredentials({ clock, env: {} }, config), limiter, clock, signal: new AbortController().signal }
  transport = createTransport(deps, { timeoutMs: 30_000, responseBytesMax: 64 * 1024 * 1024, userAgent: 'test' })
}, 240_000)
afterAll(async () => {
  await transport.close()
  await plane.stop()
})

/** As a server before 1.27 would be read: one document per group version. */
const legacy = () =>
  createDiscovery({ transport: { ...transport, send: (request) => transport.send({ ...request, accept: 'application/json' }) }, clock })

test('old and aggregated documents of one server list the same resources', async () => {
  const line = ({
    group,
    version,
    kind,
    plural,
    namespaced,
  }: {
    group: string
    version: string
    kind: string
    plural: string
    namespaced: boolean
  }) => `${group}/${version} ${kind} ${plural} ${String(namespaced)}`
  const [ours, theirs] = await Promise.all([createDiscovery({ transport, clock }).all(), legacy().all()])
  expect(ours.length).toBeGreaterThan(50)
  expect(theirs.map(line).toSorted()).toEqual(ours.map(line).toSorted())
})

test('a failing aggregated group affects only its own kinds', async () => {
  const group = 'away.example.com'
  await kube.create({
    apiVersion: 'apiregistration.k8s.io/v1',
    kind: 'APIService',
    metadata: { name: `v1.${group}` },
    spec: {
      group,
      version: 'v1',
      groupPriorityMinimum: 100,
      versionPriority: 100,
      insecureSkipTLSVerify: true,
      service: { name: 'nobody', namespace: 'default', port: 443 },
    },
  })
  await waitFor('the group to be known as failed', async () => {
    await kube.discovery.refresh()
    return (await kube.discovery.failedGroups()).has(group)
  })
  await expect(kube.list({ apiVersion: `${group}/v1`, kind: 'Thing' })).rejects.toMatchObject({
    reason: 'DiscoveryFailed',
    retryable: true,
  })
  await expect(kube.list({ apiVersion: 'other.example.com/v1', kind: 'Thing' })).rejects.toMatchObject({ reason: 'UnknownKind' })
  expect((await kube.list(CONFIG_MAP, { namespace: 'default' })).resourceVersion).not.toBe('')
  expect([...(await legacy().failedGroups())]).toEqual([group])
})

test('many requests for a missing kind cause few lookups', async () => {
  let lookups = 0
  const counting = { ...transport, send: (request: Parameters<Transport['send']>[0]) => transport.send(request).finally(() => lookups++) }
  const discovery = createDiscovery({ transport: counting, clock })
  const missing = { apiVersion: 'gone.example.com/v1', kind: 'Widget' }
  await Promise.allSettled(Array.from({ length: 100 }, () => discovery.resolve(missing)))
  expect(lookups).toBeLessThanOrEqual(4)
  await kube.create(widgetDefinition('gone.example.com'))
  const widgets = await waitFor('the kind', () => discovery.resolve(missing))
  expect(widgets).toMatchObject({ plural: 'widgets', namespaced: true, subresources: ['status'] })
  await kube.delete({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', name: 'widgets.gone.example.com' })
  await waitFor('the kind to go', async () => {
    await discovery.refresh()
    return discovery.resolve(missing).then(
      () => false,
      () => true,
    )
  })
})

test('a list of a removed kind fails with UnknownKind', async () => {
  const group = 'went.example.com'
  const widgets = { apiVersion: `${group}/v1`, kind: 'Widget' }
  await kube.create(widgetDefinition(group))
  await waitFor('the kind', () => kube.list(widgets))
  await kube.delete({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', name: `widgets.${group}` })
  const refusal = await waitFor('the list to be refused as one of no kind', () =>
    kube.list(widgets).then(
      () => undefined,
      (error: KubeError) => (error.reason === 'UnknownKind' ? error : undefined),
    ),
  )
  expect(refusal).toMatchObject({ reason: 'UnknownKind' })
})

test('refresh starts a lookup after the call', async () => {
  let lookups = 0
  const counting = { ...transport, send: (request: Parameters<Transport['send']>[0]) => (lookups++, transport.send(request)) }
  const discovery = createDiscovery({ transport: counting, clock })
  const underWay = discovery.all()
  expect(lookups).toBe(2)
  await Promise.all([discovery.refresh(), discovery.refresh()])
  expect(lookups).toBe(4)
  await underWay
})

test('a lookup continues for other callers after one aborts', async () => {
  const discovery = createDiscovery({ transport, clock })
  const controller = new AbortController()
  const reason = new Error('enough')
  const [first, second] = [discovery.all(controller.signal), discovery.all()]
  controller.abort(reason)
  await expect(first).rejects.toBe(reason)
  expect((await second).length).toBeGreaterThan(50)
})
