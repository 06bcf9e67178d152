// The commands of flows on a real API server: what they write is what the operator reads.
import { dataFlowCrd, dataFlowCronCrd } from '@brokkr/contract/dataflow/crds.ts'
import { type Kube, type KubeObject, loadKubeconfig, openKube, waitForCrd } from '@brokkr/kube'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'

let plane: TestCluster
let kube: Kube
let namespace: string
const apiVersion = 'dataflow.dataflow.io/v1'
const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['broker.invalid:9092'], topic } })

beforeAll(async () => {
  plane = await cluster({ controllers: false })
  kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }))
  for (const crd of [dataFlowCrd(), dataFlowCronCrd()] as unknown as KubeObject[]) {
    await kube.apply(crd, { fieldManager: 'test', force: true })
    await waitForCrd({ kube, clock: systemClock }, crd, { limitMs: 60_000 })
  }
  namespace = await plane.namespace('cli')
  const spec = { source: kafka('in'), sink: kafka('out') }
  await kube.create({ apiVersion, kind: 'DataFlow', metadata: { name: 'orders', namespace }, spec: { ...spec, errors: kafka('letters') } })
  await kube.create({ apiVersion, kind: 'DataFlowCron', metadata: { name: 'nightly', namespace }, spec: { ...spec, schedule: '@daily' } })
  const status = {
    phase: 'Error',
    message: 'blocked',
    processedCount: 12,
    errorCount: 1,
    processedPerSecond: 2.5,
    lag: { messages: 4 },
    blocked: {
      since: '2026-01-01T00:00:00Z',
      stage: 'sink',
      connector: 'kafka',
      errorType: 'unknown',
      message: 'refused',
      position: 'in[0]=7',
    },
  }
  await kube.patch(
    { apiVersion, kind: 'DataFlow', namespace, name: 'orders' },
    { type: 'merge', body: { status } },
    { subresource: 'status' },
  )
}, 240_000)
afterAll(() => kube.close())

async function flows(...args: string[]): Promise<{ code: number | null; text: string }> {
  const env = { KUBECONFIG: plane.kubeconfigPath, NO_COLOR: '1' }
  const program = await startProgram({ name: 'flows', main: 'packages/cli/src/main.ts', args: ['flows', ...args, '-n', namespace], env })
  const { code } = await program.exited
  return { code, text: program.text() }
}
const annotationsOf = async (name: string, kind = 'DataFlow') =>
  (await kube.get({ apiVersion, kind, namespace, name })).metadata.annotations ?? {}

test('list and describe show figures of the status', async () => {
  const [listed, described] = await Promise.all([flows('list'), flows('describe', 'orders')])
  expect(listed.text).toMatch(/orders +DataFlow +Error +kafka → kafka +2\.5\/s +12 +1 +4 +blocked/)
  expect(described.text).toContain('processedCount       12')
  expect(described.text).toContain('"position":"in[0]=7"')
})

test('requests are annotations with an id of their own, under their own field manager', async () => {
  expect(await flows('pause', 'orders')).toMatchObject({ code: 0 })
  expect(await annotationsOf('orders')).toEqual({ 'dataflow.dataflow.io/paused': 'true' })
  expect(await flows('resume', 'orders')).toMatchObject({ code: 0 })
  expect(await flows('rewind', 'orders', '--to', '{"offsets":{"0":12}}')).toMatchObject({ code: 0 })
  expect(await flows('skip', 'orders')).toMatchObject({ code: 0 })
  expect(await flows('replay', 'orders', '--max', '5')).toMatchObject({ code: 0 })
  expect(await flows('run', 'nightly')).toMatchObject({ code: 0 })
  const { 'dataflow.dataflow.io/rewind': rewind, 'dataflow.dataflow.io/replay': replay, ...rest } = await annotationsOf('orders')
  expect(JSON.parse(rewind!)).toEqual({ id: expect.stringMatching(/^[0-9a-f]{8}$/), to: { offsets: { 0: 12 } } })
  expect(JSON.parse(replay!)).toEqual({ id: expect.stringMatching(/^[0-9a-f]{8}$/), max: 5 })
  expect(rest).toEqual({ 'dataflow.dataflow.io/skip': 'in[0]=7' })
  expect((await annotationsOf('nightly', 'DataFlowCron'))['dataflow.dataflow.io/run']).toMatch(/^[0-9a-f]{8}$/)
  const { metadata } = await kube.get({ apiVersion, kind: 'DataFlow', namespace, name: 'orders' })
  expect(metadata.managedFields?.map(({ manager }) => manager)).toContain('brokkr-operations')
})

test('a wrong position, an unknown flow and a flow without dead letters are refused with a next step', async () => {
  const [position, unknown, letters] = await Promise.all([
    flows('rewind', 'orders', '--to', 'yesterday'),
    flows('pause', 'none'),
    flows('replay', 'nightly'),
  ])
  expect(position).toMatchObject({ code: 2, text: expect.stringContaining('"yesterday" is not a position') })
  expect(unknown).toMatchObject({ code: 3, text: expect.stringContaining('there is no flow named none') })
  expect(letters).toMatchObject({ code: 3 })
})
