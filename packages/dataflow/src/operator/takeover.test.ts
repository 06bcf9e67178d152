// long: starts two operators and waits for the end of a Lease
// Many flows under operators that are processes of their own, with the rights of the generated roles: memory, idle writes, and a takeover
// after the leader was killed.
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type KubeObject, numberAt, textAt, valueAt } from '@brokkr/kube'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { logLine, type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { rbacManifests } from './rbac.ts'
import { openWorld, type World } from './test-parts/world.ts'

const flowCount = size('D114.flows')
const memoryMax = 320 << 20
/** The heap of an operator whose pod is limited to that memory. */
const nodeFlags = ['--max-semi-space-size=8', '--max-old-space-size=128']
const leaseMs = 15_000
let world: World
let kubeconfig: string

beforeAll(async () => {
  world = await openWorld()
  kubeconfig = await createIdentity()
}, 240_000)
afterAll(() => world.close())

/** A kubeconfig of a ServiceAccount that has exactly the generated roles. */
async function createIdentity(): Promise<string> {
  const { namespace, kube } = world
  const rename = (text: string) =>
    text.replaceAll('brokkr-system', namespace).replaceAll('"brokkr-dataflow-operator"', `"operator-${namespace}"`)
  for (const object of JSON.parse(rename(JSON.stringify(rbacManifests()))) as KubeObject[]) await kube.create(object)
  const path = `/api/v1/namespaces/${namespace}/serviceaccounts/operator-${namespace}/token`
  const body = { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: { expirationSeconds: 3600 } }
  const { text } = await kube.request('POST', path, { body })
  const token = textAt(JSON.parse(text), 'status', 'token')
  const admin = readFileSync(world.plane.kubeconfigPath, 'utf8')
  const authority = /certificate-authority-data"?: *"?([A-Za-z0-9+/=]+)/.exec(admin)?.[1]
  const file = /certificate-authority"?: *"?([^"\n,}]+)/.exec(admin)?.[1]
  const cluster = {
    server: kube.server,
    ...(authority === undefined ? { 'certificate-authority': file } : { 'certificate-authority-data': authority }),
  }
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'test', cluster }],
    users: [{ name: 'operator', user: { token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'operator', namespace } }],
    'current-context': 'test',
  }
  const target = join(await callServers('loan.folder', { kind: 'plain' }), 'operator.kubeconfig')
  await writeFile(target, JSON.stringify(config), { mode: 0o600 })
  return target
}

const startOperatorProgram = (name: string): Promise<ProgramProcess> =>
  startProgram({
    name,
    main: 'packages/cli/src/main.ts',
    args: ['dataflow', 'operator'],
    nodeFlags,
    env: world.env({ KUBECONFIG: kubeconfig }),
  })

const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['broker.invalid:9092'], topic } })
const rssOf = (program: ProgramProcess): number =>
  Number(/VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${program.pid}/status`, 'utf8'))?.[1]) * 1024

/** Versions of everything in the namespace that an operator could write. */
async function versions(): Promise<string> {
  const lists = await Promise.all(['DataFlow', 'Deployment', 'Secret', 'ConfigMap', 'Service', 'Role'].map((kind) => world.list(kind)))
  return JSON.stringify(lists.flat().map(({ kind, metadata }) => `${kind} ${metadata.name} ${metadata.resourceVersion}`))
}

test('[D114] with 200 flows memory is bounded, idle flows cause no write, and a standby takes over without a second rollout', async () => {
  const first = await startOperatorProgram('first')
  await logLine(first, 'operator started')
  const names = Array.from({ length: flowCount }, (_, index) => `flow-${index}`)
  const waiting = [...names]
  const work = async () => {
    for (let name = waiting.pop(); name !== undefined; name = waiting.pop())
      await world.create(name, { source: kafka('in'), sink: kafka('out') })
  }
  await Promise.all(Array.from({ length: 8 }, work))
  const running = async () => (await world.list('DataFlow')).filter((flow) => valueAt(flow, 'status', 'phase') === 'Running').length
  await waitFor('all flows', async () => (await running()) === flowCount, {
    limitMs: 240_000,
    onTimeout: async () => `${await running()}\n${first.logTail(10)}`,
  })
  const second = await startOperatorProgram('second')
  await logLine(second, 'operator started')

  const settled = await waitFor('a quiet namespace', async () => {
    const before = await versions()
    await systemClock.sleep(2_000)
    return before === (await versions()) && before
  })
  await systemClock.sleep(5_000)
  expect(await versions()).toBe(settled)
  expect([rssOf(first), rssOf(second)].filter((bytes) => bytes > memoryMax)).toEqual([])

  const generations = async () => (await world.list('Deployment')).map(({ metadata }) => metadata.generation)
  await first.kill('SIGKILL')
  await world.patch('flow-7', { spec: { sink: { config: { topic: 'changed' } } } })
  const changed = () => world.read('Deployment', 'dataflow-flow-7').then((live) => numberAt(live, 'metadata', 'generation') === 2)
  // The standby takes over when the Lease has expired.
  await waitFor('the takeover', changed, { limitMs: 10 * leaseMs, onTimeout: () => second.logTail(10) })
  await world.until('flow-7', { phase: 'Running', observedGeneration: 2 })
  expect((await generations()).filter((generation) => generation !== 1)).toEqual([2])
  expect(second.text()).not.toMatch(/Forbidden|forbidden/)
  expect(await second.stop()).toBe(0)
}, 600_000)
