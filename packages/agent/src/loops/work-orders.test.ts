import { randomUUID } from 'node:crypto'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { silentLog as log } from '@brokkr/runtime/log.ts'
import { type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { cluster, type TestCluster } from '@brokkr/testing/kube.ts'
import { nodes } from '@brokkr/testing/nodes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { agentMetrics } from '../metrics.ts'
import { refuse } from '../test-parts/api-recorder.ts'
import { type ReconcileWorld, reconcileWorld } from '../test-parts/reconcile-world.ts'
import { notClaimable, recordedLog, recordedOrder, retryScheduled } from '../test-parts/recorded-orders.ts'
import { closeAfter, json, scriptedBroker } from '../test-parts/scripted-broker.ts'
import { buildRuns, endRun, installShipwright } from '../test-parts/shipwright.ts'
import { claimedOrders } from '../work-orders/claimed.ts'
import { workOrdersLoop } from './work-orders.ts'

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
      claimed: claimedOrders({ kube }, world.own, agentId),
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

test('an order without a Job ends when its objects stand: marked as its own, under a manager of its own, part of no stack', async () => {
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

test('a Job is waited for, its failure is told as final, and a second attempt makes it anew', async () => {
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
])('%s is refused for good', async (_what, yaml, change, message) => {
  const one = order(yaml, change)
  const { ended, start } = await working([one])
  start()
  expect(await ended(one.id)).toMatchObject({ success: false, retryable: false, message: expect.stringContaining(message) as unknown })
})

test('the agent’s own namespace and what is not ours are left alone', async () => {
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

test('[X4] an order that is refused in words that quote its Secret is told without them', async () => {
  const canary = 4_091_927_314_159
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'hidden', namespace }, stringData: { password: canary } }
  const one = order([secret])
  const { ended, start } = await working([one])
  // As the API server words it, and as an admission hook may.
  world.recorder.intercept((request, response) => {
    const isIt = request.method === 'PATCH' && request.path.endsWith('/secrets/hidden')
    return isIt && refuse(response, 422, 'Invalid', `stringData.password: Invalid value: ${canary}: must be a text`)
  })
  start()
  const { message } = await ended(one.id)
  expect(message).toContain('stringData.password: Invalid value: ***')
  expect(message).not.toContain(String(canary))
})

test('an order needs the grant of its own name for what is more than an ordinary object, and is refused without a write', async () => {
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

test('a claim that somebody else won is silent, and the end of an order is told until it is heard', async () => {
  const lost = await working([order([configMap('lost')])], { claims: false })
  lost.start()
  await waitFor('the claim', () => lost.server.requests.some(({ url }) => url.pathname.endsWith('/claim')))
  expect(await at.api('GET', `/api/v1/namespaces/${namespace}/configmaps/lost`)).toMatchObject({ status: 404 })
  const one = order([configMap('told')])
  const { ended, start } = await working([one], { completeWith: [500, 503] })
  start()
  expect(await ended(one.id)).toMatchObject({ success: true })
}, 60_000)

const build = {
  apiVersion: 'shipwright.io/v1beta1',
  kind: 'Build',
  metadata: { name: 'image', namespace: '' },
  spec: { output: { image: 'r/x' } },
}
const buildOrder = () => order([{ ...build, metadata: { name: 'image', namespace } }], { work_type: 'build' })

test('a build ends as its run ends: with the digest of the image, or with the reason', async () => {
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

test('an agent that dies during a build goes on with the same run', async () => {
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
