// The pipelines controller with many pipelines over many clusters: time from a change in dev to the record for prod, one change at a time and
// many at once, resident memory, and requests to the API server while nothing changes. BENCH_PIPELINES, BENCH_CLUSTERS, BENCH_CHANGES,
// BENCH_IDLE_SECONDS and BENCH_RESYNC_SECONDS set the size. Changes at once wait for each other: their times grow with their number.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Kube, loadKubeconfig, openKube } from '@brokkr/kube'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { readCpuSeconds } from '../child.ts'
import { percentile, residentMib, tell } from '../figures.ts'
import { appName, createFleet, createPipelines, type Fleet, setVersion } from './fleet.ts'

const fleet: Fleet = { pipelines: Number(process.env['BENCH_PIPELINES'] ?? 1_000), clusters: Number(process.env['BENCH_CLUSTERS'] ?? 20) }
const changes = Number(process.env['BENCH_CHANGES'] ?? 200)
const singleChanges = 50
const idleSeconds = Number(process.env['BENCH_IDLE_SECONDS'] ?? 60)
const resyncSeconds = process.env['BENCH_RESYNC_SECONDS'] ?? '300'
const PIPELINE = { apiVersion: 'pipelines.weave.works/v1alpha1', kind: 'Pipeline' }
const PROMOTION = { apiVersion: 'pipelines.brokkr.io/v1alpha1', kind: 'Promotion' }
const limitMs = 1_800_000
/** Of the kinds that pipelines use; the server's own controllers read others. */
const resources = /resource="(deployments|pipelines|promotions|gitopsclusters|secrets|leases|events|configmaps|selfsubjectaccessreviews)"/

const plane = await privateCluster({ liftLimits: true })
const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }))
let controller: ProgramProcess | undefined
try {
  await createFleet(plane, kube, fleet)
  controller = await startController()
  await measureStart(controller)
  await measureIdle(controller)
  await measureChanges('one at a time', { from: 0, count: singleChanges, isOneAtATime: true })
  await measureChanges('all at once', { from: singleChanges, count: changes, isOneAtATime: false })
  tell('resident memory after the changes', `${residentMib(controller.pid).toFixed(0)} MiB`)
} finally {
  await controller?.stop()
  await kube.close()
  await plane.stop()
}

async function startController(): Promise<ProgramProcess> {
  const [hooks, metrics, probes] = await freePorts(3)
  const address = (port: number | undefined) => `127.0.0.1:${port}`
  const program = await startProgram({
    name: 'pipelines',
    main: 'packages/cli/src/main.ts',
    args: [
      'pipelines',
      '--install-crds',
      '--kubeconfig',
      plane.kubeconfigPath,
      '--promotion-hook-bind-address',
      address(hooks),
      '--metrics-bind-address',
      address(metrics),
      '--health-probe-bind-address',
      address(probes),
      '--resync',
      resyncSeconds,
    ],
    env: { BROKKR__PIPELINES__NAMESPACE: 'default', BROKKR__LOG__LEVEL: 'warn' },
  })
  await waitFor('the controller', async () => (await fetch(`http://${address(probes)}/readyz`)).ok, {
    limitMs,
    onTimeout: () => program.logTail(),
  })
  return program
}

async function measureStart({ pid }: ProgramProcess): Promise<void> {
  const startedMs = performance.now()
  await createPipelines(kube, fleet)
  const createdMs = performance.now()
  await waitFor('every pipeline to have its first run', async () => (await countSettled()) === fleet.pipelines, { limitMs, everyMs: 1_000 })
  tell(`create ${fleet.pipelines} pipelines`, `${((createdMs - startedMs) / 1000).toFixed(1)} s`)
  tell(`all observed over ${fleet.clusters} clusters`, `${((performance.now() - createdMs) / 1000).toFixed(1)} s later`)
  tell('resident memory', `${residentMib(pid).toFixed(0)} MiB`)
}

async function countSettled(): Promise<number> {
  const { items } = await kube.list(PIPELINE, { namespace: 'fleet' })
  return items.filter(({ status }) => (status?.['run'] as { number?: number } | undefined)?.number === 1).length
}

/** Requests by verb, from the counters of the API server; the two reads of the counters are not counted. */
async function measureIdle({ pid }: ProgramProcess): Promise<void> {
  await waitUntilQuiet()
  const [before, cpuBefore] = [await countRequests(kube), readCpuSeconds(pid)]
  await sleep(idleSeconds * 1_000)
  const [after, cpuAfter] = [await countRequests(kube), readCpuSeconds(pid)]
  const lines = [...after]
    .map(([what, count]) => ({ what, count: count - (before.get(what) ?? 0) }))
    .filter(({ count }) => count > 0)
    .toSorted((a, b) => b.count - a.count)
  tell(`idle ${idleSeconds} s: requests`, lines.map(({ what, count }) => `${what} ${count}`).join(' · ') || 'none')
  tell(`idle ${idleSeconds} s: CPU of the controller`, `${(cpuAfter - cpuBefore).toFixed(2)} s`)
}

/** The events of the start are written at a limited rate. */
async function waitUntilQuiet(): Promise<void> {
  const count = async () =>
    [...(await countRequests(kube))].filter(([what]) => what.endsWith('events')).reduce((sum, [, each]) => sum + each, 0)
  for (let last = -1, now = await count(); now !== last; now = await count()) {
    last = now
    await sleep(10_000)
  }
}

async function countRequests(client: Kube): Promise<Map<string, number>> {
  const { text } = await client.request('GET', '/metrics')
  const counts = new Map<string, number>()
  for (const line of text.split('\n')) {
    const [, labels = '', value = ''] = /^apiserver_request_total\{(.*)\} (\S+)$/.exec(line) ?? []
    const [verb, resource] = [/verb="(\w+)"/.exec(labels)?.[1], resources.exec(labels)?.[1]]
    if (verb !== undefined && resource !== undefined)
      counts.set(`${verb} ${resource}`, (counts.get(`${verb} ${resource}`) ?? 0) + Number(value))
  }
  return counts
}

async function measureChanges(how: string, batch: { from: number; count: number; isOneAtATime: boolean }): Promise<void> {
  const changedMs = new Map<string, number>()
  const latencies: number[] = []
  const stopping = new AbortController()
  const { resourceVersion } = await kube.list(PROMOTION, { namespace: 'fleet' })
  const watching = watchRecords(resourceVersion, stopping.signal, (pipeline) => {
    const startMs = changedMs.get(pipeline)
    if (startMs !== undefined) latencies.push(performance.now() - startMs)
    changedMs.delete(pipeline)
  })
  for (let index = batch.from; index < Math.min(batch.from + batch.count, fleet.pipelines); index += 1) {
    changedMs.set(appName(index), performance.now())
    await setVersion(kube, fleet, { stage: 'dev', index, version: 'v2' })
    if (batch.isOneAtATime) await waitFor('the record', () => changedMs.size === 0, { limitMs, everyMs: 5 })
  }
  await waitFor('every record', () => changedMs.size === 0, { limitMs, everyMs: 200 })
  stopping.abort()
  await watching.catch(() => undefined)
  const figures = [0.5, 0.95, 0.99].map((share) => `p${share * 100} ${percentile(latencies, share).toFixed(0)} ms`).join(' · ')
  tell(`change in dev → record for prod, ${how}`, `${figures} · n ${latencies.length} (with the two writes of the change)`)
}

async function watchRecords(resourceVersion: string, signal: AbortSignal, onRecord: (pipeline: string) => void): Promise<void> {
  for await (const event of kube.watch(PROMOTION, { namespace: 'fleet', resourceVersion, signal }))
    if (event.type === 'ADDED') onRecord((event.object['spec'] as { pipelineRef: { name: string } }).pipelineRef.name)
}
