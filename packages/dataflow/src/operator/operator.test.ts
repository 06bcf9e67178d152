// long: rollouts of many flows on a real control plane
// The operator on a real API server with simulated nodes: objects, secrets, rollouts, takeovers.
import { controllerOf, type KubeObject, rowsAt, textAt, valueAt } from '@brokkr/kube'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { annotation, finalizer } from './names.ts'
import { encode, image, type Operator, openWorld, type World } from './test-parts/world.ts'

let world: World
let operator: Operator
/** A value that may only be in Secrets. */
const canary = 'canary-9f3b1c77d2'

beforeAll(async () => {
  world = await openWorld()
  operator = await world.startOperator()
}, 240_000)
afterAll(() => world.close())

const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['broker.invalid:9092'], topic } })
const flowSpec = (more: object = {}) => ({ source: kafka('in'), sink: kafka('out'), ...more })
const withSecret = (secret: string, key = 'password', namespace?: string) => {
  const ref = { name: secret, key, ...(namespace === undefined ? {} : { namespace }) }
  const sasl = { mechanism: 'plain', username: 'reader', passwordSecretRef: ref }
  return flowSpec({ source: { type: 'kafka', config: { ...kafka('in').config, securityProtocol: 'SASL_PLAINTEXT', sasl } } })
}
const createSecret = (name: string, data: Record<string, string>, namespace = world.namespace) =>
  world.kube.create({ apiVersion: 'v1', kind: 'Secret', metadata: { name, namespace }, data: encode(data) })
const hashOf = async (flow: string) =>
  textAt(await world.read('Deployment', `dataflow-${flow}`), 'spec', 'template', 'metadata', 'annotations', annotation.specHash)
const generationOf = async (flow: string) => (await world.read('Deployment', `dataflow-${flow}`))?.metadata.generation
const containerOf = async (flow: string) =>
  rowsAt(await world.read('Deployment', `dataflow-${flow}`), 'spec', 'template', 'spec', 'containers')[0]

test('[D106] a flow gets its children with owners, and its secret is nowhere else', async () => {
  await createSecret('kafka', { password: canary })
  const flow = await world.create('orders', withSecret('kafka'))
  const status = await world.until('orders', { phase: 'Running' })
  expect(status).toMatchObject({ message: '1/1 processors ready', observedGeneration: 1, replicas: 1 })
  const kinds = ['Secret', 'ConfigMap', 'ServiceAccount', 'Role', 'RoleBinding', 'Service', 'Deployment']
  const owned: Record<string, string> = {}
  for (const kind of kinds)
    for (const object of await world.list(kind)) if (controllerOf(object)?.uid === flow.metadata.uid) owned[kind] = object.metadata.name
  expect(owned).toEqual({
    Secret: 'dataflow-orders-spec',
    ConfigMap: 'dataflow-orders-checkpoint',
    ServiceAccount: 'dataflow-orders-processor',
    Role: 'dataflow-orders-processor',
    RoleBinding: 'dataflow-orders-processor',
    Service: 'dataflow-orders',
    Deployment: 'dataflow-orders',
  })
  expect(await containerOf('orders')).toMatchObject({
    image,
    command: ['brokkr', 'dataflow', 'processor'],
    args: ['--spec-path=/etc/dataflow/spec.json', `--namespace=${world.namespace}`, '--name=orders'],
    volumeMounts: [{ mountPath: '/etc/dataflow', readOnly: true }, { mountPath: '/tmp' }],
  })
  expect(valueAt(await world.read('Deployment', 'dataflow-orders'), 'spec', 'strategy')).toEqual({ type: 'Recreate' })
  expect((await world.kube.get(world.ref('orders'))).metadata.finalizers).toEqual([finalizer])
  const once = { SecretCreated: 1, CheckpointCreated: 1, DeploymentCreated: 1 }
  await waitFor('the events', async () => Object.keys(await world.events('orders')).length >= 3)
  expect(await world.events('orders')).toEqual(once)
  const visible = await Promise.all(['ConfigMap', 'Event', 'DataFlow', 'Deployment', 'Pod', 'Service'].map((kind) => world.list(kind)))
  const metrics = await (await fetch(`http://127.0.0.1:${operator.metricsPort}/metrics`)).text()
  expect(metrics).toContain(`dataflow_status{namespace="${world.namespace}",name="orders",phase="Running"} 1`)
  const texts = [JSON.stringify(visible), operator.logged.join(''), metrics]
  for (const form of [canary, Buffer.from(canary).toString('base64')]) expect(texts.filter((text) => text.includes(form))).toEqual([])
})

test('[D107] reconciliation is stable, and deletion removes all children', async () => {
  const pem = '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n'
  await createSecret('authority', { 'ca.crt': pem })
  const tls = { caSecretRef: { name: 'authority', key: 'ca.crt' } }
  await world.create('stable', flowSpec({ source: { type: 'kafka', config: { ...kafka('in').config, securityProtocol: 'SSL', tls } } }))
  await world.until('stable', { phase: 'Running' })
  const before = [await hashOf('stable'), await generationOf('stable')]
  for (let round = 0; round < 10; round += 1) await world.patch('stable', { metadata: { labels: { round: String(round) } } })
  await world.patch('stable', { metadata: { annotations: { note: 'last' } } })
  await createSecret('unrelated', { a: 'b' })
  await waitFor('the passes', async () => (await fetchPasses()) > 0)
  expect([await hashOf('stable'), await generationOf('stable')]).toEqual(before)
  const phases = new Set<string | undefined>()
  await world.kube.delete(world.ref('stable'))
  await waitFor('the end of the flow', async () => {
    const flow = await world.kube.find(world.ref('stable'))
    if (flow !== undefined) phases.add(textAt(flow, 'status', 'phase'))
    return flow === undefined
  })
  expect(phases).toContain('Stopped')
  const left = async () => {
    const found = await Promise.all(
      ['Secret', 'ConfigMap', 'ServiceAccount', 'Role', 'RoleBinding', 'Service', 'Deployment', 'Pod'].map((kind) => world.list(kind)),
    )
    return found
      .flat()
      .filter(({ metadata }) => metadata.name.startsWith('dataflow-stable'))
      .map(({ kind, metadata }) => `${kind} ${metadata.name}`)
  }
  await waitFor('the children', async () => (await left()).length === 0, { onTimeout: async () => String(await left()) })
})

/** Finished passes over flows. */
async function fetchPasses(): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${operator.metricsPort}/metrics`)).text()
  const counts = [...text.matchAll(/reconcile_total\{controller="flows",result="again"\} (\d+)/g)].map(([, count]) => Number(count))
  return counts.reduce((total, count) => total + count, 0)
}

test('[D108] pod settings and image precedence are applied with one rollout per change', async () => {
  const resources = { requests: { cpu: '200m', memory: '256Mi' }, limits: { memory: '1Gi' } }
  await world.create('pods', flowSpec({ resources, scheduling: { nodeSelector: { 'kubernetes.io/os': 'linux' } } }))
  await world.until('pods', { phase: 'Running' })
  expect(await containerOf('pods')).toMatchObject({
    image,
    resources,
    env: expect.arrayContaining([expect.objectContaining({ value: expect.stringContaining('--max-old-space-size=614') })]),
  })
  expect(valueAt(await world.read('Deployment', 'dataflow-pods'), 'spec', 'template', 'spec', 'nodeSelector')).toEqual({
    'kubernetes.io/os': 'linux',
  })
  const imageAfter = async (spec: object): Promise<[string | undefined, number]> => {
    const before = (await generationOf('pods'))!
    await world.patch('pods', { spec })
    const generation = (await world.kube.get(world.ref('pods'))).metadata.generation!
    await world.until('pods', (status) => status.observedGeneration === generation && status.phase === 'Running')
    return [textAt(await containerOf('pods'), 'image'), (await generationOf('pods'))! - before]
  }
  expect(await imageAfter({ processorVersion: '2.0' })).toEqual(['example.invalid/brokkr:2.0', 1])
  expect(await imageAfter({ processorImage: 'other.invalid/image:9' })).toEqual(['other.invalid/image:9', 1])
  expect(await imageAfter({ processorVersion: '3.0' })).toEqual(['other.invalid/image:9', 0])
  expect(await imageAfter({ processorImage: null, processorVersion: null })).toEqual([image, 1])
  // A field of the live Deployment that was changed by hand is set back.
  await world.kube.patch(
    { apiVersion: 'apps/v1', kind: 'Deployment', namespace: world.namespace, name: 'dataflow-pods' },
    { type: 'merge', body: { spec: { template: { spec: { terminationGracePeriodSeconds: 1 } } } } },
  )
  await waitFor(
    'the healed Deployment',
    async () =>
      valueAt(await world.read('Deployment', 'dataflow-pods'), 'spec', 'template', 'spec', 'terminationGracePeriodSeconds') === 120,
  )
})

test('[D58] without the webhook an invalid flow shows the text of admission, and gets no objects', async () => {
  await world.create('invalid', { source: { type: 'kafka', config: { topic: 'a' } }, sink: { type: 'postgresql', config: { table: 't' } } })
  const status = await world.until('invalid', { phase: 'Error' })
  const message =
    'spec.source.config.brokers: is required: set brokers or brokersSecretRef; spec.sink.config.connectionString: is required: set connectionString or connectionStringSecretRef'
  expect(status.message).toBe(message)
  expect(await world.condition('invalid', 'SpecValid')).toMatchObject({ status: 'False', reason: 'Invalid', message })
  expect([await world.read('Secret', 'dataflow-invalid-spec'), await world.read('Deployment', 'dataflow-invalid')]).toEqual([
    undefined,
    undefined,
  ])
  await waitFor('the event', async () => (await world.events('invalid'))['SpecInvalid'] === 1)
})

test('[D116] an invalid change leaves the running processor alone', async () => {
  await world.create('kept', flowSpec())
  await world.until('kept', { phase: 'Running' })
  const before = [await hashOf('kept'), await generationOf('kept')]
  await world.patch('kept', { spec: { sink: { config: { topic: '' } } } })
  await world.until('kept', { phase: 'Error' })
  expect(await world.condition('kept', 'SpecValid')).toMatchObject({ status: 'False' })
  expect([await hashOf('kept'), await generationOf('kept')]).toEqual(before)
  expect(await world.status('kept')).toMatchObject({ replicas: 1 })
  await world.patch('kept', { spec: { sink: { config: { topic: 'again' } } } })
  await world.until('kept', { phase: 'Running' })
})

test('[D110] a missing Secret and a missing key are named; the flow recovers by itself', async () => {
  await world.create('unresolved', withSecret('later'))
  const path = 'spec.source.config.sasl.passwordSecretRef'
  await world.until('unresolved', { phase: 'Error', message: `${path}: secret ${world.namespace}/later does not exist` })
  expect(await world.condition('unresolved', 'SpecResolved')).toMatchObject({ status: 'False', reason: 'ResolutionFailed' })
  await createSecret('later', { user: 'x' })
  await world.until('unresolved', { message: `${path}: secret ${world.namespace}/later has no key password` })
  await world.kube.patch(
    { apiVersion: 'v1', kind: 'Secret', namespace: world.namespace, name: 'later' },
    { type: 'merge', body: { data: encode({ password: 'now-there' }) } },
  )
  await world.until('unresolved', { phase: 'Running' })
  // A Secret that is deleted later leaves the processor alone.
  const before = [await hashOf('unresolved'), await generationOf('unresolved')]
  await world.kube.delete({ apiVersion: 'v1', kind: 'Secret', namespace: world.namespace, name: 'later' })
  await world.until('unresolved', { phase: 'Error' })
  expect([await hashOf('unresolved'), await generationOf('unresolved')]).toEqual(before)
  await createSecret('later', { password: 'now-there' })
  await world.until('unresolved', { phase: 'Running' })
  expect([await hashOf('unresolved'), await generationOf('unresolved')]).toEqual(before)
})

test('[D111] a Secret of another namespace needs a grant', async () => {
  const other = await world.plane.namespace('vault')
  await createSecret('shared', { password: 'far-away' }, other)
  await world.create('granted', withSecret('shared', 'password', other))
  const message = `spec.source.config.sasl.passwordSecretRef: secret ${other}/shared is not shared with namespace ${world.namespace}`
  await world.until('granted', { phase: 'Error', message })
  expect(await world.condition('granted', 'SpecResolved')).toMatchObject({ reason: 'NotShared' })
  await world.kube.patch(
    { apiVersion: 'v1', kind: 'Secret', namespace: other, name: 'shared' },
    { type: 'merge', body: { metadata: { annotations: { [annotation.shareWith]: `a, ${world.namespace}` } } } },
  )
  // The other namespace is not watched, so the flow is looked at again after a change of its own.
  await world.patch('granted', { metadata: { annotations: { note: 'granted' } } })
  await world.until('granted', { phase: 'Running' })
})

test('[D115] remains of the public operator are removed, and foreign objects stay', async () => {
  const foreign = {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'dataflow-taken', namespace: world.namespace },
    spec: { clusterIP: 'None', ports: [{ port: 1 }] },
  }
  const service = await world.kube.create(foreign)
  await world.create('taken', flowSpec())
  await world.until('taken', {
    phase: 'Error',
    message: `Service ${world.namespace}/dataflow-taken exists and is not owned by this flow: rename the flow or delete that object`,
  })
  expect((await world.read('Service', 'dataflow-taken'))?.metadata.resourceVersion).toBe(service.metadata.resourceVersion)
  expect(await world.condition('taken', 'ProcessorDeploymentReady')).toMatchObject({ status: 'False', reason: 'NameTaken' })

  const old = await world.create('old', flowSpec({ replicas: 0 }), { finalizers: ['dataflow.dataflow.io/finalizer'] })
  const owner = { apiVersion: old.apiVersion, kind: old.kind, name: 'old', uid: old.metadata.uid!, controller: true }
  const left = (name: string, data: Record<string, string>): KubeObject => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name, namespace: world.namespace, ownerReferences: [owner] },
    data,
  })
  await world.kube.create(left('dataflow-old-spec', { 'spec.json': '{"password":"clear"}' }))
  await world.patch('old', { spec: { replicas: 1 } })
  await world.until('old', { phase: 'Running' })
  await waitFor('the ConfigMap', async () => (await world.read('ConfigMap', 'dataflow-old-spec')) === undefined)
  expect((await world.kube.get(world.ref('old'))).metadata.finalizers).toEqual([finalizer])
  await waitFor('the event', async () => (await world.events('old'))['PlaintextSpecRemoved'] === 1)
})

/** As the public operator documents them: a block under the name of its type, and a block under `config`. */
const publicSamples: Record<string, object> = {
  typed: {
    source: { type: 'kafka', kafka: { brokers: ['broker.invalid:9092'], topic: 'input-topic', consumerGroup: 'dataflow-group' } },
    sink: {
      type: 'postgresql',
      postgresql: { connectionString: 'postgres://h/d?sslmode=disable', table: 'output_table', autoCreateTable: true },
    },
    transformations: [
      { type: 'timestamp', timestamp: { fieldName: 'processed_at' } },
      { type: 'select', select: { fields: ['id', 'name'] } },
    ],
    errors: { type: 'kafka', kafka: { brokers: ['broker.invalid:9092'], topic: 'error-topic' } },
    scheduling: { nodeSelector: { 'kubernetes.io/os': 'linux' } },
    checkpointPersistence: false,
  },
  configured: {
    source: { type: 'postgresql', config: { connectionString: 'postgres://h/d', table: 'input_table', pollInterval: 60 } },
    sink: { type: 'Kafka', config: { brokers: ['broker.invalid:9092'], topic: 'out' } },
    transformations: [{ type: 'mask', config: { fields: ['password'], keepLength: true } }, { type: 'snakeCase' }],
    resources: { limits: { cpu: '500m', memory: '512Mi' }, requests: { cpu: '100m', memory: '128Mi' } },
    replicas: 1,
  },
}

test.each(Object.entries(publicSamples))('an object of the public operator in the %s shape is accepted and runs', async (name, spec) => {
  await world.create(name, spec)
  await world.until(name, { phase: 'Running' })
  const hasCheckpoint = (await world.read('ConfigMap', `dataflow-${name}-checkpoint`)) !== undefined
  expect(hasCheckpoint).toBe(name === 'configured')
})

test('[D117] a suspended flow stops at once and shows its next window', async () => {
  const maintenance = { startTime: '2099-01-01T00:00:00Z', duration: '1h', suspended: true }
  await world.create('suspended', flowSpec())
  await world.until('suspended', { phase: 'Running' })
  await world.patch('suspended', { spec: { maintenance } })
  const { maintenanceStatus } = await world.until('suspended', { phase: 'Stopped', replicas: 0 })
  expect(maintenanceStatus).toEqual({ inMaintenance: true, suspended: true, nextMaintenanceTime: '2099-01-01T00:00:00Z' })
  await world.patch('suspended', { spec: { maintenance: { suspended: false } } })
  await world.until('suspended', { phase: 'Running' })
})

test('[D112] a rotated Secret rolls only the flows that use it', async () => {
  await createSecret('rotated', { password: 'first' })
  const names = Array.from({ length: 12 }, (_, index) => `many-${index}`)
  for (const name of names) await world.create(name, name === 'many-5' ? withSecret('rotated') : withSecret('kafka'))
  for (const name of names) await world.until(name, { phase: 'Running' })
  const generations = () => Promise.all(names.map(generationOf))
  const before = await generations()
  await world.kube.patch(
    { apiVersion: 'v1', kind: 'Secret', namespace: world.namespace, name: 'rotated' },
    { type: 'merge', body: { data: encode({ password: 'second' }) } },
  )
  await waitFor('the rollout', async () => (await generationOf('many-5')) !== before[5])
  await world.until('many-5', (status) => status.phase === 'Running' && status.replicas === 1)
  expect(await generations()).toEqual(before.map((generation, index) => (index === 5 ? generation! + 1 : generation)))
})

test('[D113] one flow never has two pods during a rollout', async () => {
  await world.create('single', flowSpec())
  await world.until('single', { phase: 'Running' })
  let most = 0
  const watching = new AbortController()
  const pods = { apiVersion: 'v1', kind: 'Pod' }
  const selection = { namespace: world.namespace, labelSelector: 'dataflow.dataflow.io/name=single' }
  const { items, resourceVersion } = await world.kube.list(pods, selection)
  const live = new Set(items.map(({ metadata }) => metadata.name))
  expect(live.size).toBe(1)
  const watched = (async () => {
    for await (const { type, object } of world.kube.watch(pods, { ...selection, resourceVersion, signal: watching.signal })) {
      if (type === 'DELETED') live.delete(object.metadata.name)
      else if (type !== 'BOOKMARK') live.add(object.metadata.name)
      most = Math.max(most, live.size)
    }
  })().catch(() => undefined)
  for (const topic of ['b', 'c', 'd']) {
    const before = await hashOf('single')
    await world.patch('single', { spec: { sink: { config: { topic } } } })
    await waitFor('the new hash', async () => (await hashOf('single')) !== before)
    await world.until('single', (status) => status.phase === 'Running')
  }
  watching.abort()
  await watched
  expect(most).toBe(1)
})

test('[D118] pause stops the pod and resume starts it; kubectl scale changes the number of a Kafka flow', async () => {
  await world.create('steered', flowSpec())
  await world.until('steered', { phase: 'Running' })
  await world.patch('steered', { metadata: { annotations: { [annotation.paused]: 'true' } } })
  await world.until('steered', { phase: 'Stopped', message: 'paused by hand', replicas: 0 })
  expect(await world.condition('steered', 'Flowing')).toMatchObject({ status: 'Unknown', reason: 'NotRunning' })
  await world.patch('steered', { metadata: { annotations: { [annotation.paused]: null } } })
  await world.until('steered', { phase: 'Running', replicas: 1 })
  await waitFor('the events', async () => {
    const events = await world.events('steered')
    return events['Paused'] === 1 && events['Resumed'] === 1
  })
  const scale = { type: 'merge' as const, body: { spec: { replicas: 3 } } }
  await world.kube.patch(world.ref('steered'), scale, { subresource: 'scale' })
  await world.until('steered', { phase: 'Running', message: '3/3 processors ready', replicas: 3 })
  await world.create('polled', flowSpec({ source: { type: 'postgresql', config: { connectionString: 'postgres://h/d', table: 't' } } }))
  await expect(world.kube.patch(world.ref('polled'), scale, { subresource: 'scale' })).rejects.toThrow(
    'only kafka sources run with more than one replica',
  )
})

test('[D109] an operator upgrade rolls flows within its limit, and unready flows take no place', async () => {
  const upgraded = await openWorld()
  try {
    const deployment = (tag: string): KubeObject => ({
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'operator', namespace: upgraded.namespace },
      spec: {
        replicas: 0,
        selector: { matchLabels: { app: 'operator' } },
        template: {
          metadata: { labels: { app: 'operator' } },
          spec: { containers: [{ name: 'operator', image: `example.invalid/brokkr:${tag}` }] },
        },
      },
    })
    await upgraded.kube.apply(deployment('1'), { fieldManager: 'test' })
    await upgraded.startOperator({ PROCESSOR_IMAGE: '', OPERATOR_DEPLOYMENT_NAME: 'operator', ROLLOUT_CONCURRENCY: '3' })
    const names = Array.from({ length: 20 }, (_, index) => `flow-${index}`)
    for (const name of names) await upgraded.create(name, flowSpec(name === 'flow-0' ? { nodeSelector: { missing: 'node' } } : {}))
    for (const name of names.slice(1)) await upgraded.until(name, { phase: 'Running' })
    let most = 0
    const watching = new AbortController()
    const rolling = new Set<string>()
    const deployments = { apiVersion: 'apps/v1', kind: 'Deployment' }
    const selection = { namespace: upgraded.namespace, labelSelector: 'app=dataflow-processor' }
    const { resourceVersion } = await upgraded.kube.list(deployments, selection)
    const watched = (async () => {
      for await (const { object, type } of upgraded.kube.watch(deployments, { ...selection, resourceVersion, signal: watching.signal })) {
        if (type === 'BOOKMARK') continue
        const { name, generation = 0 } = object.metadata
        const isReady =
          valueAt(object, 'status', 'observedGeneration') === generation &&
          valueAt(object, 'status', 'readyReplicas') === 1 &&
          valueAt(object, 'status', 'updatedReplicas') === 1
        // A flow that was not ready before the upgrade has no mark and takes no place.
        if (object.metadata.annotations?.[annotation.upgrading] === undefined || isReady) rolling.delete(name)
        else rolling.add(name)
        most = Math.max(most, rolling.size)
      }
    })().catch(() => undefined)
    await upgraded.kube.apply(deployment('2'), { fieldManager: 'test' })
    const isNew = async (name: string) => {
      const live = await upgraded.read('Deployment', `dataflow-${name}`)
      return textAt(rowsAt(live, 'spec', 'template', 'spec', 'containers')[0], 'image') === 'example.invalid/brokkr:2'
    }
    for (const name of names) await waitFor(`${name} to be upgraded`, () => isNew(name))
    for (const name of names.slice(1)) await upgraded.until(name, { phase: 'Running' })
    watching.abort()
    await watched
    expect((await upgraded.read('Deployment', 'dataflow-flow-0'))?.metadata.annotations?.[annotation.upgrading]).toBeUndefined()
    expect(most).toBeGreaterThan(0)
    expect(most).toBeLessThanOrEqual(3)
  } finally {
    await upgraded.close()
  }
})

test('[D119] a run by hand starts its triggers one after the other; a failed processor starts none', async () => {
  const schedule = {
    schedule: '0 4 * * *',
    timeZone: 'Europe/Berlin',
    triggers: [{ image: 'example.invalid/first:1' }, { image: 'example.invalid/second:1', args: ['x'] }],
  }
  await world.create('nightly', flowSpec(schedule), { kind: 'DataFlowCron' })
  await world.until('nightly', { phase: 'Pending', message: 'waits for its first run' }, 'DataFlowCron')
  const cronJob = await world.read('CronJob', 'dataflowcron-nightly')
  expect(cronJob?.spec).toMatchObject({ schedule: '0 4 * * *', timeZone: 'Europe/Berlin', concurrencyPolicy: 'Forbid', suspend: false })
  await world.patch('nightly', { metadata: { annotations: { [annotation.run]: 'by-hand' } } }, 'DataFlowCron')
  const done = await world.until('nightly', { phase: 'Completed' }, 'DataFlowCron')
  const jobs = (await world.list('Job')).filter(({ metadata }) => metadata.name.startsWith('dataflowcron-nightly'))
  const runId = (done as { currentRunID?: string }).currentRunID
  expect(jobs.map(({ metadata }) => metadata.name).toSorted()).toEqual(
    [`dataflowcron-nightly-${runId}-t0`, `dataflowcron-nightly-${runId}-t1`, 'dataflowcron-nightly-run-by-hand'].toSorted(),
  )
  await world.patch('nightly', { spec: { suspend: true } }, 'DataFlowCron')
  await world.until('nightly', { phase: 'Stopped', message: 'suspended' }, 'DataFlowCron')
  await waitFor(
    'the suspended CronJob',
    async () => valueAt(await world.read('CronJob', 'dataflowcron-nightly'), 'spec', 'suspend') === true,
  )
  await world.kube.delete(world.ref('nightly', 'DataFlowCron'))
  await waitFor('the end of the Cron', async () => (await world.kube.find(world.ref('nightly', 'DataFlowCron'))) === undefined)

  const failing = await openWorld()
  try {
    await failing.startOperator({ PROCESSOR_POD_LABELS: 'practice.brokkr.io/outcome=fail' })
    await failing.create('broken', flowSpec(schedule), { kind: 'DataFlowCron', annotations: { [annotation.run]: 'one' } })
    const status = await failing.until('broken', { phase: 'Failed' }, 'DataFlowCron')
    expect(status).toMatchObject({ currentTriggerIndex: -1, lastFailedTime: expect.any(String) })
    expect((await failing.list('Job')).map(({ metadata }) => metadata.name)).toEqual(['dataflowcron-broken-run-one'])
    await waitFor('the event', async () => (await failing.events('broken'))['RunFailed'] === 1)
  } finally {
    await failing.close()
  }
})
