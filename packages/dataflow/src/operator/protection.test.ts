// long: deletes flows and a Cron on a real control plane
// What the operator must not end or delete: a running processor whose new form is invalid, objects of others, and one-shots that fail.
import { checkpointKey } from '@brokkr/contract/dataflow/checkpoint.ts'
import { type KubeObject, textAt, valueAt } from '@brokkr/kube'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { annotation, label } from './names.ts'
import { encode, openWorld, type World } from './test-parts/world.ts'

let world: World
beforeAll(async () => {
  world = await openWorld()
  await world.startOperator()
}, 240_000)
afterAll(() => world.close())

const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['broker.invalid:9092'], topic } })
const flowSpec = (more: object = {}) => ({ source: kafka('in'), sink: kafka('out'), ...more })
const isGone = async (name: string, kind?: string) => (await world.kube.find(world.ref(name, kind))) === undefined

test('[D116] a form that the API server refuses leaves the running Deployment alone, and the status says why', async () => {
  await world.create('running', flowSpec())
  await world.until('running', { phase: 'Running' })
  const before = await world.read('Deployment', 'dataflow-running')
  await world.patch('running', { spec: { scheduling: { nodeSelector: { 'no label!': 'x' } } } })
  const status = await world.until('running', { phase: 'Error' })
  expect(status.message).toContain('no label!')
  expect(await world.condition('running', 'ProcessorDeploymentReady')).toMatchObject({ status: 'False', reason: 'ApplyFailed' })
  const after = await world.read('Deployment', 'dataflow-running')
  expect([after?.metadata.uid, after?.metadata.generation]).toEqual([before?.metadata.uid, before?.metadata.generation])
  await world.patch('running', { spec: { scheduling: { nodeSelector: null } } })
  await world.until('running', { phase: 'Running' })
  expect((await world.read('Deployment', 'dataflow-running'))?.metadata.uid).toBe(before?.metadata.uid)
})

test('[D107] a pod that has failed does not hold the deletion', async () => {
  await world.create('evicted', flowSpec())
  await world.until('evicted', { phase: 'Running' })
  const labels = { app: 'dataflow-processor', [label.name]: 'evicted', [label.owned]: 'true', 'practice.brokkr.io/outcome': 'run' }
  const pod = { apiVersion: 'v1', kind: 'Pod', namespace: world.namespace, name: 'evicted-pod' }
  const spec = { containers: [{ name: 'processor', image: 'example.invalid/a:1' }] }
  await world.kube.create({ apiVersion: 'v1', kind: 'Pod', metadata: { name: pod.name, namespace: pod.namespace, labels }, spec })
  await world.kube.patch(pod, { type: 'merge', body: { status: { phase: 'Failed', reason: 'Evicted' } } }, { subresource: 'status' })
  await world.kube.delete(world.ref('evicted'))
  await waitFor('the end of the flow', () => isGone('evicted'))
  expect(textAt(await world.kube.find(pod), 'status', 'phase')).toBe('Failed')
})

test('[D107] the deletion of a Cron leaves Jobs alone that it does not control', async () => {
  await world.create('hourly', flowSpec({ schedule: '0 4 * * *' }), { kind: 'DataFlowCron' })
  await world.until('hourly', { phase: 'Pending' }, 'DataFlowCron')
  const labels = { app: 'dataflow-processor', [label.cron]: 'hourly', [label.owned]: 'true' }
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'example.invalid/a:1' }] } }
  const job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'of-another', namespace: world.namespace, labels },
    spec: { template },
  }
  const created = await world.kube.create(job)
  await world.kube.delete(world.ref('hourly', 'DataFlowCron'))
  await waitFor('the end of the Cron', () => isGone('hourly', 'DataFlowCron'))
  expect((await world.read('Job', 'of-another'))?.metadata).toMatchObject({ uid: created.metadata.uid })
  expect((await world.read('Job', 'of-another'))?.metadata.deletionTimestamp).toBeUndefined()
})

test('[D115] a checkpoint of another owner is not written by the migration, and the old one stays', async () => {
  const metadata = { name: 'dataflow-moved-checkpoint', namespace: world.namespace }
  const foreign = await world.kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { note: 'foreign' } })
  const flow = await world.create('moved', flowSpec({ replicas: 0 }), { annotations: { [annotation.paused]: 'true' } })
  const owner = { apiVersion: flow.apiVersion, kind: flow.kind, name: 'moved', uid: flow.metadata.uid!, controller: true }
  const old = { name: 'df-moved-checkpoint', namespace: world.namespace, ownerReferences: [owner] }
  await world.kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: old, data: { checkpoint: 'saved' } })
  await world.patch('moved', { metadata: { annotations: { note: 'again' } } })
  await world.until('moved', (status) => status.message?.includes('dataflow-moved-checkpoint exists and is not owned') === true)
  const left = await Promise.all(['dataflow-moved-checkpoint', 'df-moved-checkpoint'].map((name) => world.read('ConfigMap', name)))
  expect(left.map((object) => valueAt(object, 'data'))).toEqual([foreign.data, { checkpoint: 'saved' }])
})

test('[D119] a replay whose Job cannot be started is reported once, and the status goes on', async () => {
  const labels = { note: 'foreign' }
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'example.invalid/a:1' }] } }
  const metadata = { name: 'dataflow-again-replay-r1', namespace: world.namespace, labels }
  await world.kube.create({ apiVersion: 'batch/v1', kind: 'Job', metadata, spec: { suspend: true, template } })
  const request = (id: string) => ({ metadata: { annotations: { [annotation.replay]: JSON.stringify({ id }) } } })
  await world.create('again', flowSpec({ errors: kafka('dead') }))
  await world.until('again', { phase: 'Running' })
  await world.patch('again', request('r1'))
  await waitFor('the event', async () => (await world.events('again'))['ReplayFailed'] === 1)
  await world.until('again', (status) => status.oneShots?.ids?.includes('replay:r1') === true)
  // An id that is no value of a label.
  await world.patch('again', request('-r2.'))
  await world.until('again', (status) => status.oneShots?.ids?.includes('replay:-r2.') === true)
  await waitFor('the Job', async () => (await world.list('Job')).some(({ metadata: { labels: of } }) => of?.[label.replayId] !== undefined))
  expect((await world.read('Job', metadata.name))?.metadata.labels).toMatchObject(labels)
})

test('[D107] the slot that a Secret of another owner names is not dropped', async () => {
  const source = {
    type: 'postgresql-cdc',
    config: { connectionString: 'postgres://127.0.0.1:1/d', tables: ['a'], slotName: 'foreign_slot', dropSlotOnDelete: true },
  }
  const text = JSON.stringify({ kind: 'DataFlow', spec: { source, sink: kafka('out') }, oneShots: {}, secretPlaces: [] })
  const metadata = { name: 'dataflow-slots-spec', namespace: world.namespace }
  await world.kube.create({ apiVersion: 'v1', kind: 'Secret', metadata, data: encode({ 'spec.json': text }) })
  await world.create('slots', { source, sink: kafka('out') })
  await world.until('slots', { phase: 'Error' })
  expect(await world.condition('slots', 'ProcessorDeploymentReady')).toMatchObject({ reason: 'NameTaken' })
  await world.kube.delete(world.ref('slots'))
  // A connection to that database would fail and hold the deletion.
  await waitFor('the end of the flow', () => isGone('slots'))
})

test('[D115] a CronJob of the public operator ends its run before the migration deletes it, and its checkpoint is copied', async () => {
  const annotations = { [annotation.paused]: 'true' }
  const cron = await world.create('left', flowSpec({ schedule: '0 4 * * *', suspend: true, checkpointPersistence: true, replicas: 1 }), {
    kind: 'DataFlowCron',
    annotations,
  })
  const controller = (of: KubeObject) => [
    { apiVersion: of.apiVersion, kind: of.kind, name: of.metadata.name, uid: of.metadata.uid!, controller: true },
  ]
  await world.until('left', { phase: 'Stopped' }, 'DataFlowCron')
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'example.invalid/a:1' }] } }
  const old = await world.kube.create({
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: { name: 'dfc-left', namespace: world.namespace, ownerReferences: controller(cron) },
    spec: { schedule: '0 4 * * *', jobTemplate: { spec: { template } } },
  })
  const run = await world.kube.create({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: {
      name: 'dfc-left-1',
      namespace: world.namespace,
      ownerReferences: controller({ ...old, apiVersion: 'batch/v1', kind: 'CronJob' }),
    },
    spec: { suspend: true, template },
  })
  const saved = { name: 'dfc-left-checkpoint', namespace: world.namespace, ownerReferences: controller(cron) }
  await world.kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: saved, data: { [checkpointKey]: '{"saved":true}' } })
  await world.patch('left', { metadata: { annotations: { note: 'again' } } }, 'DataFlowCron')
  await waitFor('the suspended CronJob', async () => valueAt(await world.read('CronJob', 'dfc-left'), 'spec', 'suspend') === true)
  // A pass has seen the suspended CronJob with its run.
  const isWaiting = ({ conditions = [] }: { conditions?: readonly { type: string; reason?: string; message?: string }[] | undefined }) =>
    conditions.some(({ type, reason, message }) => type === 'Ready' && reason === 'Migrating' && message?.includes('Job dfc-left-1,'))
  await world.until('left', isWaiting, 'DataFlowCron')
  expect((await world.read('CronJob', 'dfc-left'))?.metadata).toMatchObject({ uid: old.metadata.uid })
  expect((await world.read('CronJob', 'dfc-left'))?.metadata.deletionTimestamp).toBeUndefined()
  expect((await world.read('ConfigMap', 'dfc-left-checkpoint'))?.metadata.uid).toBeDefined()
  await world.kube.delete({ apiVersion: 'batch/v1', kind: 'Job', namespace: world.namespace, name: run.metadata.name })
  await waitFor('the end of the CronJob', async () => (await world.read('CronJob', 'dfc-left')) === undefined)
  expect(valueAt(await world.read('ConfigMap', 'dataflowcron-left-checkpoint'), 'data', checkpointKey)).toBe('{"saved":true}')
  expect(await world.read('ConfigMap', 'dfc-left-checkpoint')).toBeUndefined()
})

test('[D119] a foreign CronJob with the name and labels of ours gives no runs', async () => {
  const labels = { app: 'dataflow-processor', [label.cron]: 'taken', [label.owned]: 'true' }
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'example.invalid/a:1' }] } }
  const foreign = await world.kube.create({
    apiVersion: 'batch/v1',
    kind: 'CronJob',
    metadata: { name: 'dataflowcron-taken', namespace: world.namespace, labels },
    spec: { schedule: '0 4 * * *', suspend: true, jobTemplate: { spec: { template } } },
  })
  const owner = { apiVersion: 'batch/v1', kind: 'CronJob', name: 'dataflowcron-taken', uid: foreign.metadata.uid!, controller: true }
  const metadata = {
    name: 'taken-run',
    namespace: world.namespace,
    labels: { ...labels, [label.triggerIndex]: 'processor' },
    ownerReferences: [owner],
  }
  await world.kube.create({ apiVersion: 'batch/v1', kind: 'Job', metadata, spec: { suspend: true, template } })
  await world.create('taken', flowSpec({ schedule: '0 4 * * *' }), { kind: 'DataFlowCron' })
  const status = await world.until('taken', (seen) => seen.message?.includes('is not owned') === true, 'DataFlowCron')
  expect(status).toMatchObject({ phase: 'Error' })
  expect((await world.read('Job', 'taken-run'))?.metadata.labels?.[label.runId]).toBeUndefined()
})

test('an invalid request is one event per value', async () => {
  await world.create('asked', flowSpec())
  await world.until('asked', { phase: 'Running' })
  const request = (text: string) => world.patch('asked', { metadata: { annotations: { [annotation.rewind]: text } } })
  const events = async () => (await world.events('asked'))['RequestInvalid'] ?? 0
  await request('earliest')
  await waitFor('the event', async () => (await events()) === 1)
  await world.patch('asked', { metadata: { annotations: { note: 'a pass' } } })
  await request('{"id":"a"}')
  await waitFor('the event of the second value', async () => (await events()) === 2)
})

test('[D119] a foreign Job is no run, and a refused trigger is in status and events', async () => {
  const trigger = { name: 'after', image: 'example.invalid/t:1', env: [{ name: 'a=b', value: 'x' }] }
  await world.create('refused', flowSpec({ schedule: '0 4 * * *', triggers: [trigger] }), { kind: 'DataFlowCron' })
  await world.until('refused', { phase: 'Pending' }, 'DataFlowCron')
  const labels = { app: 'dataflow-processor', [label.cron]: 'refused', [label.owned]: 'true', [label.triggerIndex]: 'processor' }
  const template = { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'example.invalid/a:1' }] } }
  const foreign = await world.kube.create({
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'foreign-run', namespace: world.namespace, labels },
    spec: { suspend: true, template },
  })
  await world.patch('refused', { metadata: { annotations: { [annotation.run]: 'one' } } }, 'DataFlowCron')
  const status = await world.until('refused', (seen) => seen.message?.includes('cannot start') === true, 'DataFlowCron')
  expect(status).toMatchObject({ phase: 'RunningTriggers' })
  expect(status.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({ status: 'False', reason: 'TriggerRefused' })
  await waitFor('the event', async () => (await world.events('refused'))['TriggerRefused'] === 1)
  expect((await world.read('Job', 'foreign-run'))?.metadata).toMatchObject({ uid: foreign.metadata.uid, labels })
  expect((await world.read('Job', 'foreign-run'))?.metadata.labels?.[label.runId]).toBeUndefined()
})
