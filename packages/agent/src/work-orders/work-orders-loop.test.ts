import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { nodes } from '@brokkr/testing/servers/nodes.ts'
import { buildRuns, endRun, installShipwright } from '@brokkr/testing/shipwright.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { agentMetrics } from '../metrics.ts'
import { toSignedBytes } from '../reconcile/plan/signature.ts'
import { refuse } from '../test-parts/api-recorder.ts'
import { type ReconcileWorld, reconcileWorld } from '../test-parts/reconcile-world.ts'
import { notClaimable, recordedLog, recordedOrder, retryScheduled } from '../test-parts/recorded-orders.ts'
import { closeAfter, json, scriptedBroker } from '../test-parts/scripted-broker.ts'
import { createClaimStore } from './claim-store.ts'
import { orderCleanUpLoop } from './clean-up-loop.ts'
import { workOrdersLoop } from './work-orders-loop.ts'

let at: TestCluster
let world: ReconcileWorld
let namespace: string
beforeAll(async () => {
  at = await cluster()
  await nodes(1)
  await installShipwright(at)
}, 300_000)
beforeEach(async () => {
  world = await reconcileWorld(at)
  namespace = await at.namespace('orders')
})

interface Told {
  readonly id: string
  readonly success: boolean
  readonly message: string
  readonly retryable?: boolean
  readonly attempt: number
}

/** A broker that has these orders, with the answers of the recorded one. */
async function working(orders: readonly ReturnType<typeof recordedOrder>[], change: { completeWith?: number[]; claims?: boolean } = {}) {
  const told: Told[] = []
  const output: { attempt: number; offset: number; text: string }[] = []
  const open = new Map(orders.map((order) => [order.id, order]))
  const completeWith = [...(change.completeWith ?? [])]
  const server = await scriptedBroker((_request, response, url) => {
    const id = /work-orders\/([^/]+)\//.exec(url.pathname)?.[1] ?? ''
    if (url.pathname.endsWith('/work-orders/pending')) return json(response, 200, [...open.values()])
    if (url.pathname.endsWith('/claim')) {
      const order = open.get(id)
      open.delete(id)
      return order === undefined || change.claims === false
        ? json(response, 404, notClaimable)
        : json(response, 200, { ...order, status: 'CLAIMED' })
    }
    const status = completeWith.shift()
    if (status !== undefined && status >= 400) return json(response, status, {})
    const body = JSON.parse(server.requests.at(-1)?.body ?? '{}') as Omit<Told, 'id'>
    told.push({ id, ...body })
    return body.success ? json(response, 200, recordedLog(id, true)) : json(response, 202, retryScheduled)
  })
  const broker = await server.connect()
  const start = (): RunningLoop => {
    const { kube, settings, agentId } = world.deps
    const loop = workOrdersLoop({
      kube,
      settings,
      agentId: agentId as never,
      clock,
      log,
      metrics: agentMetrics(createMetrics()),
      client: broker.client,
      sendOutput: async (_id, piece) => void output.push(piece),
      claimed: createClaimStore({ kube }, world.own, agentId),
      permit: { refusal: null },
      types: ['build', 'custom'],
      concurrency: 4,
      everyMs: 100,
      checkMs: 50,
      buildMs: 60_000,
    })
    const running = startLoop({ clock, log }, loop, { immediately: true })
    closeAfter(() => running.stop())
    return running
  }
  const ended = (id: string) => waitFor('the end of the order', () => told.find((one) => one.id === id), { limitMs: 60_000 })
  return { server, told, output, ended, start }
}

/** The agent writes this after its report; a process that starts earlier continues the first attempt. */
const waitForEndRecord = (id: string) => {
  const claimed = createClaimStore({ kube: world.deps.kube }, world.own, world.deps.agentId)
  return waitFor('the record of the end', async () => (await claimed.ended(AbortSignal.timeout(10_000))).some((one) => one.id === id))
}

const order = (objects: readonly object[] | string, change: Record<string, unknown> = {}) =>
  recordedOrder(randomUUID(), {
    yaml_content: typeof objects === 'string' ? objects : objects.map((each) => JSON.stringify(each)).join('\n---\n'),
    ...change,
  })
const configMap = (name: string, data = {}) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data })
const job = (name: string, spec: object = {}) => ({
  apiVersion: 'batch/v1',
  kind: 'Job',
  metadata: { name, namespace },
  spec: { backoffLimit: 0, ...spec, template: { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'x' }] } } },
})
const get = async (path: string) =>
  (await at.api('GET', path)).json as { metadata: { uid: string; labels: Record<string, string> }; data?: object }

test('an order without a Job completes when its objects are ready, with its own labels', async () => {
  const one = order([configMap('plain', { v: '1' })])
  const { ended, start, told } = await working([one])
  start()
  expect(await ended(one.id)).toMatchObject({ success: true, attempt: 1 })
  const { metadata } = await get(`/api/v1/namespaces/${namespace}/configmaps/plain`)
  expect(metadata.labels).toMatchObject({ 'brokkr.io/work-order-id': one.id, 'brokkr.io/owner-id': world.agentId })
  expect(metadata.labels['applyset.kubernetes.io/part-of']).toBeUndefined()
  expect(told.length).toBe(1)
  await waitFor(
    'its record to go',
    async () => (await at.api('GET', `/api/v1/namespaces/${world.own}/secrets/brokkr-order-${one.id}`)).status === 404,
  )
})

test('the record of a reported order is deleted although the first delete fails', async () => {
  const one = order([configMap('told')])
  const { ended, start } = await working([one])
  let refusals = 0
  world.recorder.intercept(({ method, path }, response) =>
    method === 'DELETE' && path.endsWith(`/secrets/brokkr-order-${one.id}`) && refusals++ === 0
      ? refuse(response, 503, 'ServiceUnavailable', 'starting')
      : false,
  )
  start()
  expect(await ended(one.id)).toMatchObject({ success: true })
  await waitFor(
    'its record to go',
    async () => (await at.api('GET', `/api/v1/namespaces/${world.own}/secrets/brokkr-order-${one.id}`)).status === 404,
    { limitMs: 20_000 },
  )
  expect(refusals).toBe(2)
})

test('writes of the record of an order are repeated when they fail', async () => {
  const one = order([job('kept')])
  const { ended, start, told } = await working([one])
  let writes = 0
  // The first write records the order, the next successful one its Job: each fails once.
  world.recorder.intercept(({ method, path }, response) => {
    if (method !== 'PATCH' || !path.endsWith(`/secrets/brokkr-order-${one.id}`)) return false
    writes++
    return writes === 1 || writes === 3 ? refuse(response, 503, 'ServiceUnavailable', 'starting') : false
  })
  start()
  expect(await ended(one.id)).toMatchObject({ success: true, attempt: 1 })
  expect(told.length).toBe(1)
  await waitForEndRecord(one.id)
  const claimed = createClaimStore({ kube: world.deps.kube }, world.own, world.deps.agentId)
  const record = (await claimed.ended(AbortSignal.timeout(10_000))).find(({ id }) => id === one.id)
  expect(record?.created.map(({ kind, name }) => [kind, name])).toEqual([['Job', 'kept']])
  expect(writes).toBeGreaterThanOrEqual(4)
})

test('an order that cannot be recorded is returned to the broker and not executed', async () => {
  const one = order([configMap('unrecorded')])
  const { ended, start } = await working([one])
  world.recorder.intercept(({ method, path }, response) =>
    method === 'PATCH' && path.endsWith(`/secrets/brokkr-order-${one.id}`) ? refuse(response, 403, 'Forbidden', 'no') : false,
  )
  start()
  expect(await ended(one.id)).toMatchObject({ success: false, message: expect.stringContaining('not recorded') as unknown })
  expect((await at.api('GET', `/api/v1/namespaces/${namespace}/configmaps/unrecorded`)).status).toBe(404)
})

test('a failed Job is reported as final, and a second attempt creates it again', async () => {
  const good = order([job('good')])
  const { ended, start, output } = await working([good])
  // No container engine here: what a container wrote is said in its place.
  world.recorder.intercept((request, response) => {
    if (!/\/pods\/good-[^/]+\/log$/.test(request.path)) return false
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.end('done: 7 rows\n')
    return true
  })
  start()
  expect(await ended(good.id)).toMatchObject({ success: true, message: '1 job completed' })
  expect(output).toMatchObject([{ attempt: 1, offset: 0, text: expect.stringMatching(/^== good-\S+\/c\ndone: 7 rows\n$/) as unknown }])
  const first = order([job('bad', { activeDeadlineSeconds: 1, suspend: false, parallelism: 1, completions: 100 })])
  const failing = await working([first])
  failing.start()
  expect(await failing.ended(first.id)).toMatchObject({
    success: false,
    retryable: false,
    message: expect.stringContaining('DeadlineExceeded') as unknown,
  })
  await waitForEndRecord(first.id)
  const { uid } = (await get(`/apis/batch/v1/namespaces/${namespace}/jobs/bad`)).metadata
  const again = await working([{ ...first, attempt: 2 } as never])
  again.start()
  await again.ended(first.id)
  expect((await get(`/apis/batch/v1/namespaces/${namespace}/jobs/bad`)).metadata.uid).not.toBe(uid)
}, 120_000)

test.each([
  ['another kind of work', 'x', { work_type: 'dance' }, 'unsupported work type dance'],
  ['no YAML', 'a: [', {}, ''],
  ['nothing at all', '', {}, 'holds no object'],
  ['a kind that nobody serves', JSON.stringify({ apiVersion: 'x.example/v1', kind: 'X', metadata: { name: 'x' } }), {}, 'missing_kind'],
])('%s is rejected as final', async (_what, yaml, change, message) => {
  const one = order(yaml, change)
  const { ended, start } = await working([one])
  start()
  expect(await ended(one.id)).toMatchObject({ success: false, retryable: false, message: expect.stringContaining(message) as unknown })
})

test('the namespace of the agent and foreign objects are not changed', async () => {
  const inside = order([{ ...configMap('x'), metadata: { name: 'x', namespace: world.own } }])
  await at.api('POST', `/api/v1/namespaces/${namespace}/configmaps`, { body: configMap('foreign', { v: 'theirs' }) })
  const foreign = order([configMap('foreign', { v: 'ours' })])
  const { ended, start } = await working([inside, foreign])
  const before = world.writes.length
  start()
  expect(await ended(inside.id)).toMatchObject({
    success: false,
    retryable: false,
    message: expect.stringContaining('outside_scope') as unknown,
  })
  expect(await ended(foreign.id)).toMatchObject({
    success: false,
    retryable: false,
    message: expect.stringContaining('foreign_object') as unknown,
  })
  expect((await get(`/api/v1/namespaces/${namespace}/configmaps/foreign`)).data).toEqual({ v: 'theirs' })
  expect(world.writes.slice(before).filter(({ ref }) => !ref.name.startsWith('brokkr-order-'))).toEqual([])
})

test('[X4] an error that quotes a Secret is reported without its values', async () => {
  const canary = 4_091_927_314_159
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'hidden', namespace }, stringData: { password: canary } }
  const one = order([secret])
  const { ended, start } = await working([one])
  // As the API server words it, and as an admission hook may.
  world.recorder.intercept((request, response) => {
    const isIt = request.method === 'POST' && request.path.endsWith(`/namespaces/${namespace}/secrets`)
    return isIt && refuse(response, 422, 'Invalid', `stringData.password: Invalid value: ${canary}: must be a text`)
  })
  start()
  const { message } = await ended(one.id)
  expect(message).toContain('stringData.password: Invalid value: ***')
  expect(message).not.toContain(String(canary))
})

test('an order without the required grant is rejected before any write', async () => {
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'Role', metadata: { name: 'r', namespace }, rules: [] }
  const [refused, granted] = [order([role]), order([role])]
  const before = world.writes.length
  const first = await working([refused])
  first.start()
  expect(await first.ended(refused.id)).toMatchObject({
    success: false,
    retryable: false,
    message: expect.stringContaining('policy_denied') as unknown,
  })
  expect(world.writes.slice(before).filter(({ ref }) => ref.kind === 'Role')).toEqual([])
  world = await reconcileWorld(at, { tenants: { grants: { __work_orders__: ['rbac'] }, identities: {}, identitiesRequired: false } })
  const second = await working([granted])
  second.start()
  expect(await second.ended(granted.id)).toMatchObject({ success: true })
})

test('[X12] require_signatures rejects an unsigned or replayed work order before any write', async () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519')
  const keys = { ci: publicKey.export({ type: 'spki', format: 'pem' }).toString() }
  world = await reconcileWorld(at, { signatures: { isRequired: true, keys } })
  const text = JSON.stringify(configMap('signed'))
  const signed = (what: 'manifest' | 'work order') =>
    `# brokkr-signature: ci ${sign(null, toSignedBytes(text, what), privateKey).toString('base64')}\n${text}`
  const [unsigned, replayed, good] = [order(text), order(signed('manifest')), order(signed('work order'))]
  const first = await working([unsigned, replayed])
  first.start()
  for (const { id } of [unsigned, replayed])
    expect(await first.ended(id)).toMatchObject({
      success: false,
      retryable: false,
      message: expect.stringContaining('signature_refused') as unknown,
    })
  expect(world.writes.filter(({ ref }) => !ref.name.startsWith('brokkr-order-'))).toEqual([])
  const second = await working([good])
  second.start()
  expect(await second.ended(good.id)).toMatchObject({ success: true })
})

test('a work order acts as its identity, and is rejected without one if it is required', async () => {
  world = await reconcileWorld(at, { tenants: { grants: {}, identities: {}, identitiesRequired: true } })
  const refused = order([configMap('nobody')])
  const first = await working([refused])
  first.start()
  expect(await first.ended(refused.id)).toMatchObject({
    success: false,
    retryable: false,
    message: expect.stringContaining('agent.identities') as unknown,
  })
  expect(world.writes.filter(({ ref }) => !ref.name.startsWith('brokkr-order-'))).toEqual([])
  const identities = { __work_orders__: `${namespace}/orders` }
  world = await reconcileWorld(at, { tenants: { grants: {}, identities, identitiesRequired: true } })
  const acting = order([configMap('impersonated')])
  const second = await working([acting])
  second.start()
  expect(await second.ended(acting.id)).toMatchObject({
    success: false,
    message: expect.stringContaining(`system:serviceaccount:${namespace}:orders`) as unknown,
  })
  const about = world.recorder.requests.filter(({ path }) => path.includes(`/namespaces/${namespace}/`))
  expect(new Set(about.map(({ as }) => as))).toEqual(new Set([`system:serviceaccount:${namespace}:orders`]))
})

test('a lost claim is not reported, and the result of an order is sent until accepted', async () => {
  const lost = await working([order([configMap('lost')])], { claims: false })
  lost.start()
  await waitFor('the claim', () => lost.server.requests.some(({ url }) => url.pathname.endsWith('/claim')))
  expect(await at.api('GET', `/api/v1/namespaces/${namespace}/configmaps/lost`)).toMatchObject({ status: 404 })
  const one = order([configMap('told')])
  const { ended, start } = await working([one], { completeWith: [500, 503] })
  start()
  expect(await ended(one.id)).toMatchObject({ success: true })
}, 60_000)

test('an object created between lookup and write is reported as foreign and not changed', async () => {
  const one = order([configMap('raced', { v: 'ours' })])
  const { ended, start } = await working([one])
  let isMade = false
  world.recorder.intercept(async (request) => {
    if (isMade || request.method === 'GET' || !request.path.includes(`/namespaces/${namespace}/configmaps`)) return false
    isMade = true
    await at.api('POST', `/api/v1/namespaces/${namespace}/configmaps`, { body: configMap('raced', { v: 'theirs' }) })
    return false
  })
  start()
  expect(await ended(one.id)).toMatchObject({
    success: false,
    retryable: false,
    message: expect.stringContaining('foreign_object') as unknown,
  })
  expect((await get(`/api/v1/namespaces/${namespace}/configmaps/raced`)).data).toEqual({ v: 'theirs' })
})

test('a second attempt sends no request outside the allowed namespaces', async () => {
  world = await reconcileWorld(at, {
    policy: { allowedNamespaces: [namespace], watchNamespace: null, protectedNamespaces: [world.own], deniedKinds: [] },
  })
  const first = order([job('again')])
  const one = await working([first])
  one.start()
  expect(await one.ended(first.id)).toMatchObject({ success: true })
  await waitForEndRecord(first.id)
  const { uid } = (await get(`/apis/batch/v1/namespaces/${namespace}/jobs/again`)).metadata
  world.recorder.clear()
  const two = await working([{ ...first, attempt: 2 } as never])
  two.start()
  expect(await two.ended(first.id)).toMatchObject({ success: true, attempt: 2 })
  expect((await get(`/apis/batch/v1/namespaces/${namespace}/jobs/again`)).metadata.uid).not.toBe(uid)
  const asked = world.recorder.requests.filter(({ path }) => path.startsWith('/apis/batch/v1/'))
  expect(asked.filter(({ path }) => !path.startsWith(`/apis/batch/v1/namespaces/${namespace}/`)).map(({ path }) => path)).toEqual([])
}, 60_000)

test('clean-up deletes the Jobs of an order and no copies with its labels', async () => {
  const one = order([job('made')])
  const { ended, start } = await working([one])
  start()
  expect(await ended(one.id)).toMatchObject({ success: true })
  const { labels } = (await get(`/apis/batch/v1/namespaces/${namespace}/jobs/made`)).metadata
  const copy = { ...job('copy'), metadata: { name: 'copy', namespace, labels } }
  await at.api('POST', `/apis/batch/v1/namespaces/${namespace}/jobs`, { body: copy })
  type Conditions = { status?: { conditions?: { type: string }[] } }
  await waitFor(
    'the copy to complete',
    async () =>
      (await at.api('GET', `/apis/batch/v1/namespaces/${namespace}/jobs/copy`)).status === 200 &&
      ((await get(`/apis/batch/v1/namespaces/${namespace}/jobs/copy`)) as Conditions).status?.conditions?.some(
        ({ type }) => type === 'Complete',
      ),
    { limitMs: 60_000 },
  )
  const { kube, settings, agentId } = world.deps
  const claimed = createClaimStore({ kube }, world.own, agentId)
  await waitFor('the record of the end', async () => (await claimed.ended(AbortSignal.timeout(10_000))).length === 1)
  const cleanUp = (afterMs: number) => orderCleanUpLoop({ kube, settings, clock, log, claimed, afterMs }).run(AbortSignal.timeout(30_000))
  expect(await cleanUp(86_400_000)).toEqual({ deleted: 0 })
  expect(await cleanUp(0)).toEqual({ deleted: 1 })
  await waitFor('the Job to go', async () => (await at.api('GET', `/apis/batch/v1/namespaces/${namespace}/jobs/made`)).status === 404)
  expect((await at.api('GET', `/apis/batch/v1/namespaces/${namespace}/jobs/copy`)).status).toBe(200)
  expect(await claimed.ended(AbortSignal.timeout(10_000))).toEqual([])
}, 120_000)

const build = {
  apiVersion: 'shipwright.io/v1beta1',
  kind: 'Build',
  metadata: { name: 'image', namespace: '' },
  spec: { output: { image: 'r/x' } },
}
const buildOrder = () => order([{ ...build, metadata: { name: 'image', namespace } }], { work_type: 'build' })

test('a build ends with its run: with the image digest or the failure reason', async () => {
  const one = buildOrder()
  const { ended, start } = await working([one])
  start()
  const [run] = await waitFor('the run', async () => ((runs) => (runs.length > 0 ? runs : undefined))(await buildRuns(at, namespace)))
  expect(run?.metadata.name).toBe(`image-${one.id.slice(0, 8)}-1`)
  expect(run?.metadata.labels['shipwright.io/build']).toBe('image')
  await endRun(at, namespace, run!.metadata.name, { conditions: [{ type: 'Succeeded', status: 'True' }], output: { digest: 'sha256:abc' } })
  expect(await ended(one.id)).toMatchObject({ success: true, message: 'sha256:abc' })
  const bad = buildOrder()
  const failing = await working([bad])
  failing.start()
  const name = `image-${bad.id.slice(0, 8)}-1`
  await waitFor('the second run', async () => (await buildRuns(at, namespace)).some(({ metadata }) => metadata.name === name))
  await endRun(at, namespace, name, { conditions: [{ type: 'Succeeded', status: 'False', reason: 'BuildFailed', message: 'no' }] })
  expect(await failing.ended(bad.id)).toMatchObject({ success: false, retryable: false, message: 'BuildFailed: no' })
})

test('a restarted agent continues a build with the same run', async () => {
  const one = buildOrder()
  const { ended, start, told } = await working([one])
  const first = start()
  const name = `image-${one.id.slice(0, 8)}-1`
  await waitFor('the run', async () => (await buildRuns(at, namespace)).some(({ metadata }) => metadata.name === name))
  await first.stop()
  expect(told).toEqual([])
  start()
  await endRun(at, namespace, name, { conditions: [{ type: 'Succeeded', status: 'True' }], output: { digest: 'sha256:def' } })
  expect(await ended(one.id)).toMatchObject({ success: true, message: 'sha256:def', attempt: 1 })
  expect((await buildRuns(at, namespace)).length).toBe(1)
})
