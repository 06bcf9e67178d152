// long: starts a broker, an agent and an operator
// A flow seen and steered through the broker: a stack delivers it, the agent reports its status, orders reach it as annotations, and the
// operator carries them out.
import { type AgentProcess, startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { annotation, apiVersion } from './names.ts'
import { encode, type Operator, openWorld, type World } from './test-parts/world.ts'

let world: World
let operator: Operator
let broker: TestBroker
let agent: AgentProcess
let tenant: TestGenerator
let flowId: string

const table = (name: string) => ({
  type: 'postgresql',
  config: { connectionStringSecretRef: { name: 'database', key: 'url' }, table: name },
})
const manifest = (more: object = {}) => ({
  apiVersion,
  kind: 'DataFlow',
  metadata: { name: 'orders', namespace: world.namespace, ...more },
  spec: { source: table('a'), sink: table('b'), errors: { ...table('letters'), payload: 'full' } },
})

beforeAll(async () => {
  world = await openWorld()
  operator = await world.startOperator()
  await world.kube.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'database', namespace: world.namespace },
    data: encode({ url: 'postgresql://u:canary-secret@db.example:5432/d' }),
  })
  broker = await startTestBroker()
  world.onClose(() => broker.kill())
  tenant = await createGenerator(broker)
  const label = unique('l')
  const identity = await createAgent(broker, { generators: [tenant], labels: [label] })
  agent = await startTestAgent({
    broker,
    agent: identity,
    kubeconfigPath: world.plane.kubeconfigPath,
    namespace: await world.plane.namespace('agent'),
    env: { BROKKR__AGENT__POLLING_INTERVAL: '0.5', BROKKR__AGENT__DEPLOYMENT_HEALTH_INTERVAL: '0.5' },
  })
  world.onClose(() => agent.kill())
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: JSON.stringify(manifest()) } })
  flowId = (await soon('the flow in the list', async () => (await tenant.client.listFlows({ query: { stack_id: stack.id } }))[0])).id
}, 300_000)
afterAll(() => world.close())

const explain = () => `agent: ${agent.logTail(10)}\nbroker: ${broker.logTail(5)}\noperator: ${operator.logged.slice(-5).join('')}`
const soon = <T>(what: string, probe: () => Promise<T | undefined | false>) => waitFor(what, probe, { onTimeout: explain })
const read = () => tenant.client.getFlow({ params: { id: flowId } })
const order = async (body: Parameters<TestGenerator['client']['createFlowOrder']>[0]['body']) => {
  const { id } = await tenant.client.createFlowOrder({ params: { id: flowId }, body })
  const done = await soon(`the end of ${body.action}`, async () =>
    (await read()).orders.find((one) => one.id === id && one.finished_at !== null),
  )
  return done
}
const annotationOf = async (key: string) => (await world.kube.get(world.ref('orders'))).metadata.annotations?.[key]

test('a flow of a cluster is listed with its state', async () => {
  const flow = await soon('a running flow', async () => {
    const seen = await read()
    return seen.state === 'running' && !seen.stale ? seen : undefined
  })
  expect(flow).toMatchObject({
    kind: 'DataFlow',
    name: 'orders',
    namespace: world.namespace,
    generator_id: tenant.generator.id,
    orders: [],
  })
  expect(flow.report).toMatchObject({ phase: 'Running' })
  expect(flow.report?.conditions?.find(({ type }) => type === 'SpecValid')).toMatchObject({ status: 'True' })
  expect((await broker.admin.listFlows({ query: { state: 'running', name: 'orders' } })).map(({ id }) => id)).toContain(flowId)
  expect(JSON.stringify(await broker.admin.listFlows({}))).not.toContain('canary-secret')
})

test('pause and resume reach the operator, and delivery of the stack does not undo them', async () => {
  expect(await order({ action: 'pause' })).toMatchObject({ status: 'COMPLETED', action: 'pause' })
  await world.until('orders', { phase: 'Stopped', message: 'paused by hand' })
  await soon('a stopped flow', async () => (await read()).state === 'stopped')
  expect((await read()).report?.paused).toBe(true)
  expect(await order({ action: 'rewind', to: 'earliest' })).toMatchObject({ status: 'COMPLETED' })
  expect(await annotationOf(annotation.paused)).toBe('true')
  expect(await order({ action: 'resume' })).toMatchObject({ status: 'COMPLETED' })
  await world.until('orders', (status) => status.message !== 'paused by hand')
  expect(await annotationOf(annotation.paused)).toBeUndefined()
})

test('rewind, replay and skip carry the id of their order, and the operator takes each once', async () => {
  const rewind = await order({ action: 'rewind', to: { changeTime: '2026-01-02T03:04:05Z' } })
  expect(JSON.parse((await annotationOf(annotation.rewind)) ?? '')).toEqual({ id: rewind.id, to: { changeTime: '2026-01-02T03:04:05Z' } })
  await world.until('orders', (status) => status.oneShots?.ids?.includes(`rewind:${rewind.id}`) === true)
  const replay = await order({ action: 'replay', max: 3 })
  await world.until('orders', (status) => status.oneShots?.ids?.includes(`replay:${replay.id}`) === true)
  await order({ action: 'skip', position: '0/15' })
  expect(await annotationOf(annotation.skip)).toBe('0/15')
  expect((await read()).orders.map(({ action }) => action).slice(0, 3)).toEqual(['skip', 'replay', 'rewind'])
})

test('an order for a flow that is not of this stack is refused by the agent', async () => {
  const ref = world.ref('orders')
  const { labels } = (await world.kube.get(ref)).metadata
  await world.create('foreign', manifest().spec)
  const flow = { kind: 'DataFlow', namespace: world.namespace, name: 'foreign', stack_id: labels?.['brokkr.io/stack'] }
  const { id } = await broker.admin.createWorkOrder({
    body: {
      work_type: 'flow',
      yaml_content: JSON.stringify({ flow, order: { action: 'pause' } }),
      targeting: { agent_ids: [(await read()).agent_id] },
    },
  })
  const ended = await soon('the end of the order', () => broker.admin.getWorkOrderLog({ params: { id } }).catch(() => undefined))
  expect(ended).toMatchObject({ success: false, retries_attempted: 0 })
  expect(ended.result_message).toContain('foreign_object')
})
