// needs: kubernetes
import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { request } from 'node:https'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { ensureKubeAssets, type KubeAssets } from '../assets/kube-assets.ts'
import { isSameProcess, readStartTime } from '../supervisor/process-table.ts'
import { runScript } from '../test-parts/run-script.ts'
import { type ControlPlane, type ControlPlaneOptions, startControlPlane } from './kubernetes.ts'

let assets: KubeAssets
let plane: ControlPlane
let folder: string

beforeAll(async () => {
  // The first time on a machine this builds for minutes; later it is a look into the cache.
  assets = await ensureKubeAssets()
  folder = await mkdtemp(join(tmpdir(), 'brokkr-plane-'))
  // As on a first start: the API server serves while the other programs are still being fetched.
  plane = await startControlPlane({ dir: join(folder, 'shared'), assets: await ensureKubeAssets({ stage: 'core' }) })
  plane.useAssets(assets)
  await plane.ensureNodes(2)
}, 1_800_000)

afterAll(async () => {
  await plane?.stop()
  await rm(folder, { recursive: true, force: true })
}, 60_000)

test('the API server has the requested version and accepts its token', async () => {
  expect((await plane.api('GET', '/version')).json).toMatchObject({ gitVersion: assets.version })
  const review = { apiVersion: 'authentication.k8s.io/v1', kind: 'SelfSubjectReview' }
  const { json } = await plane.api('POST', '/apis/authentication.k8s.io/v1/selfsubjectreviews', { body: review })
  expect(json).toMatchObject({ status: { userInfo: { username: 'admin', groups: expect.arrayContaining(['system:masters']) } } })
})

test('both kubeconfig files work, with token and with client certificate', async () => {
  const byToken = await readFile(plane.kubeconfigPath, 'utf8')
  expect(byToken).toContain(`server: ${plane.url}\n`)
  expect(byToken).toContain(`token: ${plane.token}\n`)
  const text = await readFile(plane.kubeconfigCertPath, 'utf8')
  const value = (name: string) => Buffer.from(new RegExp(`${name}: (\\S+)`).exec(text)?.[1] ?? '', 'base64').toString()
  const [ca, cert, key] = ['certificate-authority-data', 'client-certificate-data', 'client-key-data'].map(value)
  const status = await new Promise((resolve, reject) => {
    request(`${plane.url}/api/v1/namespaces/kube-system/secrets`, { ca, cert, key, agent: false }, (response) =>
      resolve(response.statusCode),
    )
      .on('error', reject)
      .end()
  })
  expect(status).toBe(200)
})

test('the API server returns 403 to the plain user and 401 to an unknown token', async () => {
  const read = (token: string) => plane.api('GET', '/api/v1/namespaces/default/configmaps', { token })
  expect((await read(plane.plainToken)).status).toBe(403)
  expect((await read('nobody')).status).toBe(401)
})

test('a Deployment with three replicas becomes Available with three endpoints', async () => {
  await create('/apis/apps/v1', 'deployments', deployment('web', 3))
  await create('/api/v1', 'services', { metadata: { name: 'web' }, spec: { selector: { app: 'web' }, ports: [{ port: 80 }] } })
  await available('web', 3)
  const slice = await waitFor('three endpoints', async () => {
    const { items } = await get<{ items: { endpoints?: object[] }[] }>('/apis/discovery.k8s.io/v1', 'endpointslices')
    return items.find(({ endpoints }) => endpoints?.length === 3)
  })
  expect(slice.endpoints?.map((endpoint) => 'nodeName' in endpoint && endpoint.nodeName)).toEqual(
    Array(3).fill(expect.stringMatching(/^practice-[01]$/)),
  )
})

test('a Job completes unless its pods fail', async () => {
  await create('/apis/batch/v1', 'jobs', job('good', {}))
  await create('/apis/batch/v1', 'jobs', job('bad', { 'practice.brokkr.io/outcome': 'fail' }))
  const end = (name: string) => waitFor(`the end of Job ${name}`, () => conditions('/apis/batch/v1', `jobs/${name}`).then(ending))
  expect(await Promise.all([end('good'), end('bad')])).toEqual(['Complete', 'Failed'])
})

test.each([
  ['crashloop', 'Running', { ready: false, restartCount: 5, state: { waiting: { reason: 'CrashLoopBackOff' } } }],
  ['imagepull', 'Pending', { ready: false, restartCount: 0, state: { waiting: { reason: 'ImagePullBackOff' } } }],
  ['fail', 'Failed', { ready: false, state: { terminated: { exitCode: 1 } } }],
])('a pod with the outcome %s is %s', async (outcome, phase, container) => {
  await create('/api/v1', 'pods', pod(`pod-${outcome}`, { 'practice.brokkr.io/outcome': outcome }))
  const seen = await waitFor('its status', async () => {
    const { status } = await get<Pod>('/api/v1', `pods/pod-${outcome}`)
    return status.containerStatuses === undefined ? undefined : status
  })
  expect(seen).toMatchObject({ phase, containerStatuses: [container] })
})

test('a pod with the outcome pending stays Pending on its node', async () => {
  await create('/api/v1', 'pods', pod('pod-pending', { 'practice.brokkr.io/outcome': 'pending' }))
  await waitFor('its node', async () => (await get<Pod>('/api/v1', 'pods/pod-pending')).spec.nodeName)
  await create('/api/v1', 'pods', pod('neighbour', {}))
  await waitFor('the neighbour', async () => (await get<Pod>('/api/v1', 'pods/neighbour')).status.phase === 'Running')
  expect((await get<Pod>('/api/v1', 'pods/pod-pending')).status).toMatchObject({ phase: 'Pending' })
})

test('pod logs return the log file of the plane, including appended lines', async () => {
  await create('/api/v1', 'pods', pod('talker', {}))
  await waitFor('the pod', async () => (await get<Pod>('/api/v1', 'pods/talker')).status.phase === 'Running')
  const log = async () => (await plane.api<string>('GET', '/api/v1/namespaces/default/pods/talker/log')).json
  expect(await log()).toContain('this pod is simulated')
  await appendFile(plane.podLogPath, '2026-01-01T00:00:09.000000000Z stdout F appended later\n')
  expect(await log()).toContain('appended later')
})

test('a restarted API server keeps its data and address for the controllers', async () => {
  await create('/api/v1', 'configmaps', { metadata: { name: 'survivor' } })
  const before = plane.pids()
  await plane.kill('kube-apiserver')
  await expect(plane.api('GET', '/version')).rejects.toThrow('ECONNREFUSED')
  expect(plane.pids()).not.toHaveProperty('kube-apiserver')
  await plane.start('kube-apiserver')
  expect(await get('/api/v1', 'configmaps/survivor')).toMatchObject({ metadata: { name: 'survivor' } })
  await create('/apis/apps/v1', 'deployments', deployment('after', 1))
  await available('after', 1)
  const { 'kube-apiserver': _old, ...others } = before
  expect(plane.pids()).toMatchObject(others)
})

test('a restarted etcd keeps its data after kill -9', async () => {
  await create('/api/v1', 'configmaps', { metadata: { name: 'stored' } })
  await plane.kill('etcd')
  await plane.start('etcd')
  await waitFor('the API server', async () => (await plane.api('GET', '/readyz')).status === 200)
  expect(await get('/api/v1', 'configmaps/stored')).toMatchObject({ metadata: { name: 'stored' } })
})

test('planes are isolated, and a restart on another port keeps data and credentials', async () => {
  // Longer than the name of a socket may be.
  const dir = join(folder, 'a-folder-with-a-long-name'.repeat(5))
  const second = await startPlane({ dir, assets: await ensureKubeAssets({ stage: 'core' }) })
  await expect(second.ensureNodes(1)).rejects.toThrow("is not installed: call ensureKubeAssets with stage 'full'")
  const other = { body: { metadata: { name: 'only-in-the-second' } } }
  expect((await second.api('POST', '/api/v1/namespaces/default/configmaps', other)).status).toBe(201)
  expect((await plane.api('GET', '/api/v1/namespaces/default/configmaps/only-in-the-second')).status).toBe(404)
  expect((await plane.api('GET', '/version', { token: second.token })).status).toBe(401)
  await second.stop()
  const thief = createServer().listen(Number(new URL(second.url).port), '127.0.0.1')
  onTestFinished(() => void thief.close())
  const again = await startPlane({ dir })
  expect(again.url).not.toBe(second.url)
  expect([again.token, again.caPem]).toEqual([second.token, second.caPem])
  expect((await again.api('GET', '/api/v1/namespaces/default/configmaps/only-in-the-second')).status).toBe(200)
  const processes = recorded(again)
  await again.stop()
  expect(processes.filter(isAlive)).toEqual([])
})

test('a failed start reports the end of the log and stops all processes', async () => {
  const steps: string[] = []
  const dir = join(folder, 'broken')
  const failed = startControlPlane({ dir, assets, apiserverArgs: ['--no-such-flag'], onProgress: (step) => steps.push(step) })
  await expect(failed).rejects.toThrow(/^kube-apiserver ended; its log .*kube-apiserver\.log ends with:\n[^]*unknown flag: --no-such-flag/)
  expect(steps).toEqual(['etcd', 'kube-apiserver'])
})

test('all processes of a plane end if their parent is killed', async () => {
  const script = runScript(
    `import { startControlPlane } from 'local/kubernetes/kubernetes.ts'
     const plane = await startControlPlane({ dir: process.argv[1], assets: JSON.parse(process.argv[2]) })
     say(JSON.stringify(plane.pids()))
     await ended()`,
    [join(folder, 'orphan'), JSON.stringify(assets)],
  )
  const pids = await script.line()
  const processes = recorded({ pids: () => JSON.parse(pids) as Record<string, number> })
  expect(processes.filter(isAlive)).toHaveLength(2)
  script.kill('SIGKILL')
  await waitFor('their end', () => processes.filter(isAlive).length === 0)
})

test('stop ends every process of the plane', async () => {
  const processes = recorded(plane)
  expect(processes).toHaveLength(5)
  await plane.stop()
  expect(processes.filter(isAlive)).toEqual([])
  expect(plane.pids()).toEqual({})
  await expect(plane.start('kwok')).rejects.toThrow('was stopped')
})

type Pod = { spec: { nodeName?: string }; status: { phase: string; containerStatuses?: unknown[] } }

async function startPlane(options: Partial<ControlPlaneOptions> & { dir: string }): Promise<ControlPlane> {
  const started = await startControlPlane({ assets, ...options })
  onTestFinished(() => started.stop())
  return started
}

async function create(group: string, kind: string, body: object): Promise<void> {
  const { status, json } = await plane.api('POST', `${group}/namespaces/default/${kind}`, { body })
  if (status !== 201) throw new Error(`${kind} refused with ${status}: ${JSON.stringify(json)}`)
}

async function get<T>(group: string, path: string): Promise<T> {
  return (await plane.api<T>('GET', `${group}/namespaces/default/${path}`)).json
}

async function available(name: string, replicas: number): Promise<void> {
  await waitFor(`Deployment ${name}`, async () => {
    const { status } = await get<{ status: { readyReplicas?: number } }>('/apis/apps/v1', `deployments/${name}`)
    return status.readyReplicas === replicas && (await conditions('/apis/apps/v1', `deployments/${name}`)).includes('Available')
  })
}

/** The conditions that are true. */
async function conditions(group: string, path: string): Promise<string[]> {
  const { status } = await get<{ status: { conditions?: { type: string; status: string }[] } }>(group, path)
  return (status.conditions ?? []).filter((condition) => condition.status === 'True').map(({ type }) => type)
}

function ending(types: readonly string[]): string | undefined {
  return types.find((type) => type === 'Complete' || type === 'Failed')
}

const containers = [{ name: 'main', image: 'example.invalid/app:1' }]

function pod(name: string, labels: Record<string, string>) {
  return { metadata: { name, labels }, spec: { containers } }
}

function deployment(name: string, replicas: number) {
  const labels = { app: name }
  return {
    metadata: { name },
    spec: { replicas, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers } } },
  }
}

function job(name: string, labels: Record<string, string>) {
  return { metadata: { name }, spec: { backoffLimit: 0, template: { metadata: { labels }, spec: { containers, restartPolicy: 'Never' } } } }
}

type Recorded = { pid: number; startTime: string }

function recorded(source: Pick<ControlPlane, 'pids'>): Recorded[] {
  return Object.values(source.pids()).map((pid) => ({ pid, startTime: readStartTime(pid) ?? '' }))
}

function isAlive({ pid, startTime }: Recorded): boolean {
  return isSameProcess(pid, startTime)
}
