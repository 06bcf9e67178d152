import { type Kube, loadKubeconfig, openKube } from '@brokkr/kube'
import { loadConfig } from '@brokkr/runtime/config/load-config.ts'
import { createLifecycle } from '@brokkr/runtime/lifecycle.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { checkPipelinesConfig, pipelinesTable } from './config.ts'
import { startPipelines } from './main.ts'
import { appDefinitions } from './test-parts/definitions.ts'
import { openPipeline, type Server, setRelease } from './test-parts/world.ts'

let server: Server
let kube: Kube

beforeAll(async () => {
  const plane = await privateCluster()
  kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }))
  for (const definition of appDefinitions()) await kube.create(definition)
  server = { plane, kube, kubeconfig: '' }
}, 240_000)

afterAll(async () => {
  await kube.close()
  await server.plane.stop()
})

async function start(more: Record<string, unknown> = {}) {
  const pipelines = {
    kubeconfig_path: server.plane.kubeconfigPath,
    namespace: 'default',
    metrics_port: 0,
    health_probe_port: 0,
    promotion_hook_port: 0,
    bind_host: '127.0.0.1',
    // A holder under load keeps its Lease; one that ends releases it.
    lease_seconds: 30,
    ...more,
  }
  const { value } = await loadConfig({
    table: pipelinesTable,
    env: {},
    flags: Object.fromEntries(Object.entries(pipelines).map(([key, given]) => [`pipelines.${key}`, given])),
    ignoredSections: [],
    check: checkPipelinesConfig,
  })
  const lifecycle = createLifecycle({ log: silentLog }, { graceMs: 10_000 })
  onTestFinished(() => lifecycle.close('the test has ended'))
  return { ...(await startPipelines(value, { log: silentLog, lifecycle, env: {} })), lifecycle }
}

test('the program is not ready and does not act while the definition does not know status.run', async () => {
  const program = await start()
  await waitFor('the problem', () => program.notReady()?.includes('definition of Pipeline'))
  expect((await fetch(`http://127.0.0.1:${program.probePort}/readyz`)).status).toBe(503)
  expect((await fetch(`http://127.0.0.1:${program.probePort}/healthz`)).status).toBe(200)
})

test('of two programs one acts; after its end the other goes on under a larger epoch', async () => {
  const first = await start({ install_crds: true })
  await waitFor('the first', () => first.notReady() === null)
  const second = await start()
  await waitFor('the second', () => second.notReady() === null)
  expect((await fetch(`http://127.0.0.1:${second.hooksPort()}/healthz`)).status).toBe(200)
  const pipeline = await openPipeline(server, {
    environments: ['dev', 'prod']
      .map((name) => ({ name, targets: [{ namespace: '' }] }))
      .map((environment, index) => (index === 0 ? environment : { ...environment, targets: [{ namespace: 'default' }] })),
    promotion: { strategy: { notification: {} } },
  })
  await setRelease(kube, pipeline.namespace, 'v1')
  await setRelease(kube, 'default', 'v1')
  await pipeline.createSettled('v1')
  await waitFor('run 1', async () => (await pipeline.read()).status.run?.number === 1)
  await setRelease(kube, pipeline.namespace, 'v2')
  await waitFor('the promotion', async () => (await pipeline.phases())[0] === '2 prod v2 Applied')
  const [before] = await pipeline.promotions()
  await first.lifecycle.close('the first ends')
  await setRelease(kube, 'default', 'v2')
  await waitFor('the end of the promotion', async () => (await pipeline.phases())[0] === '2 prod v2 Succeeded')
  const [after] = await pipeline.promotions()
  expect(after?.status.lease?.epoch).toBeGreaterThan(before?.status.lease?.epoch ?? Number.NaN)
  expect(after?.status.lease?.holder).not.toBe(before?.status.lease?.holder)
})

test('the program observes and does not act while the public controller holds its Lease', async () => {
  const lease = {
    apiVersion: 'coordination.k8s.io/v1',
    kind: 'Lease',
    metadata: { namespace: 'default', name: 'pipeline-controller-leader-election' },
  }
  const spec = { holderIdentity: 'public-0', leaseDurationSeconds: 3_600, renewTime: new Date().toISOString().replace('Z', '000Z') }
  await kube.create({ ...lease, spec })
  const program = await start({ install_crds: true })
  await waitFor('the reason', () => program.notReady()?.includes('public pipeline controller'))
  const pipeline = await openPipeline(server, { environments: [{ name: 'dev', targets: [{ namespace: '' }] }] })
  await setRelease(kube, pipeline.namespace, 'v1')
  await pipeline.create()
  await waitFor('the event', async () => {
    const { items } = await kube.list({ apiVersion: 'v1', kind: 'Event' }, { namespace: 'default' })
    return items.some((event) => event['reason'] === 'PublicControllerActive')
  })
  expect((await pipeline.read()).status.run).toBeUndefined()
  await kube.delete({ apiVersion: lease.apiVersion, kind: lease.kind, ...lease.metadata })
  await waitFor('run 1', async () => (await pipeline.read()).status.run?.number === 1)
  await waitFor('readiness', () => program.notReady() === null)
})

test('the program serves metrics of runs, promotions and targets', async () => {
  const program = await start({ install_crds: true })
  await waitFor('readiness', () => program.notReady() === null)
  const pipeline = await openPipeline(server, { environments: [{ name: 'dev', targets: [{ namespace: '' }] }] })
  await setRelease(kube, pipeline.namespace, 'v1')
  await pipeline.create()
  const text = async () => (await fetch(`http://127.0.0.1:${program.metricsPort}/metrics`)).text()
  await waitFor('the target', async () =>
    (await text()).includes(`target_ready{pipeline="${pipeline.key}",environment="dev",target="0"} 1`),
  )
  expect(await text()).toMatch(/brokkr_pipelines_runs_total\{cause="detected"\} [1-9]/)
  expect(await text()).toContain(`target_revision_info{pipeline="${pipeline.key}",environment="dev",target="0",revision="v1"} 1`)
  for (const name of ['promotions_total', 'phase_seconds', 'attempts_total', 'open_pull_requests', 'forge_requests_total', 'git_seconds'])
    expect(await text()).toContain(`# TYPE brokkr_pipelines_${name}`)
})
