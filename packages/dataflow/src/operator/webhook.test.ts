// long: certificates are renewed under load
// Admission through a real API server, with certificates that are renewed while objects are created.
import { randomBytes } from 'node:crypto'
import { type Clock, systemClock } from '@brokkr/runtime/clock.ts'
import { createLog } from '@brokkr/runtime/logging/log.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openWorld, type World } from './test-parts/world.ts'
import { startWebhook, type Webhook } from './webhook-server.ts'

const dayMs = 86_400_000
const name = `test-webhook-${randomBytes(4).toString('hex')}`
let world: World
let webhook: Webhook
let offsetMs = -1217.2 * dayMs
const logged: string[] = []
/** Runs in the past, so that a renewed certificate is valid now; its pauses are short. */
const clock: Clock = {
  ...systemClock,
  now: () => systemClock.now() + offsetMs,
  monotonicMs: () => systemClock.monotonicMs(),
  setTimer: (ms, work) => systemClock.setTimer(ms, work),
  sleep: (ms, signal) => systemClock.sleep(ms / 50, signal),
}

const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['broker.invalid:9092'], topic } })
const flowSpec = { source: kafka('in'), sink: kafka('out') }
const secretOf = () => world.read('Secret', name)
const certificateOf = async (key: string) => (await secretOf())?.data?.[key]

beforeAll(async () => {
  world = await openWorld()
  // Stored before the webhook: it would be refused now.
  await world.create(
    'older',
    { source: { type: 'kafka', config: { topic: 't' } }, sink: kafka('out') },
    { finalizers: ['example.com/held'] },
  )
  const log = createLog({ name: 'webhook', destination: { write: (line) => void logged.push(line) } })
  const settings = {
    host: '127.0.0.1',
    port: 0,
    certDir: null,
    secret: { name, namespace: world.namespace },
    hosts: ['127.0.0.1'],
    configuration: name,
  }
  webhook = startWebhook({ kube: world.kube, clock, log, isLeader: () => true }, settings)
  world.onClose(() => webhook.stop())
  const port = await waitFor('the webhook', () => webhook.port())
  // A CA close to its renewal, and a leaf of 62 days, which is valid now.
  const first = await certificateOf('tls.crt')
  offsetMs = -62 * dayMs
  await waitFor('a valid leaf', async () => (await certificateOf('tls.crt')) !== first && (await isServed()))
  await createConfiguration(port)
  await waitFor('the CA in the configuration', async () => {
    const live = await world.kube.get({ apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingWebhookConfiguration', name })
    return JSON.stringify(live).includes('"caBundle"')
  })
  await waitFor('the first refusal', () =>
    world.create('probe', {}).then(
      () => false,
      (error: unknown) => String(error).includes('is invalid'),
    ),
  )
}, 240_000)
afterAll(async () => {
  await world.kube.delete({ apiVersion: 'admissionregistration.k8s.io/v1', kind: 'ValidatingWebhookConfiguration', name })
  await world.close()
})

const countServed = (): number => logged.filter((line) => line.includes('webhook certificate served')).length
const isServed = async (): Promise<boolean> => countServed() >= 2

/** Only for the namespace of this test: the API server is shared. */
async function createConfiguration(port: number): Promise<void> {
  const webhooks = ['dataflow', 'dataflowcron'].map((kind) => ({
    name: `${kind}.dataflow.dataflow.io`,
    admissionReviewVersions: ['v1'],
    sideEffects: 'None',
    failurePolicy: 'Fail',
    timeoutSeconds: 5,
    matchPolicy: 'Equivalent',
    namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': world.namespace } },
    rules: [{ apiGroups: ['dataflow.dataflow.io'], apiVersions: ['v1'], operations: ['CREATE', 'UPDATE'], resources: [`${kind}s`] }],
    clientConfig: { url: `https://127.0.0.1:${port}/validate-dataflow-dataflow-io-v1-${kind}` },
  }))
  await world.kube.create({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingWebhookConfiguration',
    metadata: { name },
    webhooks,
  })
}

test('[D56] admission stores valid flows and names every mistake of invalid ones', async () => {
  await world.create('valid', flowSpec)
  const wrong = {
    source: { type: 'kafka', config: { topic: 't' } },
    sink: { type: 'postgresql', config: { connectionString: 'postgres://h/d' } },
  }
  const refusal = await world.create('wrong', wrong).then(
    () => undefined,
    (error: unknown) => error as { code?: number; message: string },
  )
  expect(refusal?.message).toContain(
    `DataFlow "${world.namespace}/wrong" is invalid: 2 problem(s): spec.source.config.brokers: is required: set brokers or brokersSecretRef; spec.sink.config.table: is required: set table or tableSecretRef`,
  )
  const before = await world.kube.get(world.ref('valid'))
  await expect(world.patch('valid', { spec: { sink: { config: { topic: null } } } })).rejects.toThrow('spec.sink.config.topic')
  expect((await world.kube.get(world.ref('valid'))).metadata.resourceVersion).toBe(before.metadata.resourceVersion)
  await expect(world.create('cron', { ...flowSpec, schedule: '30 * * * * *' }, { kind: 'DataFlowCron' })).rejects.toThrow(
    'seconds are not supported',
  )
})

test('[D57] an invalid stored flow can still get a label or lose its finalizer', async () => {
  await world.patch('older', { metadata: { labels: { team: 'a' } } })
  await world.patch('older', { metadata: { finalizers: null } })
  await expect(world.patch('older', { spec: { replicas: 2 } })).rejects.toThrow('spec.source.config.brokers')
  await world.kube.delete(world.ref('older'))
})

test('[D59] no create fails while leaf and CA are renewed', async () => {
  const failures: string[] = []
  let creates = 0
  const ending = new AbortController()
  const load = (async () => {
    while (!ending.signal.aborted) {
      const started = performance.now()
      creates += 1
      await world.create(`load-${creates}`, flowSpec).catch((error: unknown) => failures.push(String(error)))
      await systemClock.sleep(Math.max(0, 50 - (performance.now() - started)))
    }
  })()
  const renewed = async (what: string, key: string, change: () => void) => {
    const before = [await certificateOf(key), countServed()]
    change()
    await waitFor(what, async () => (await certificateOf(key)) !== before[0])
    const from = creates
    await waitFor('further creates', () => creates >= from + 10)
  }
  await renewed('the new leaf', 'tls.crt', () => void (offsetMs = -1 * dayMs))
  await renewed('the next CA', 'next-ca.crt', () => void (offsetMs = -0.4 * dayMs))
  await renewed('the leaf of the next CA', 'tls.crt', () => void (offsetMs += 61_000))
  ending.abort()
  await load
  expect(failures).toEqual([])
  expect(creates).toBeGreaterThan(30)
})
