// Work orders and diagnostics with whole agents between a real broker and a real API server.
import { appendFile } from 'node:fs/promises'
import { gunzipSync } from 'node:zlib'
import type { WorkOrder, WorkOrderLog } from '@brokkr/contract/work-orders/work-order.ts'
import { type AgentProcess, startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, type TestAgent, unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { nodes } from '@brokkr/testing/servers/nodes.ts'
import { buildRuns, endRun, installShipwright } from '@brokkr/testing/shipwright.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { type LiveWorld, liveWorld, quick } from '../test-parts/live-world.ts'

interface Place {
  readonly agent: TestAgent
  running: AgentProcess
}
const shared = unique('orders')
const env = {
  BROKKR__AGENT__WORK_ORDER_CHECK_SECONDS: '0.2',
  BROKKR__AGENT__WORK_ORDER_CONCURRENCY: '4',
  BROKKR__AGENT__DIAGNOSTICS_INTERVAL: '0.5',
}
let at: TestCluster
let world: LiveWorld
let namespace: string
let places: [Place, Place]
beforeAll(async () => {
  at = await cluster()
  await nodes(1)
  await installShipwright(at)
  world = await liveWorld(at, env, { BROKKR__BROKER__WORK_ORDER_MAINTENANCE_INTERVAL_SECONDS: '0.5' })
  namespace = world.namespace
  await world.broker.admin.agentsAddLabel({
    params: { id: world.agent.agent.id },
    body: { agent_id: world.agent.agent.id, label: shared },
  })
  const other = await createAgent(world.broker, { labels: [shared], generators: [world.tenant] })
  const running = await startTestAgent({
    broker: world.broker,
    agent: other,
    kubeconfigPath: at.kubeconfigPath,
    namespace: await at.namespace('agent'),
    env: { ...quick, ...env },
  })
  places = [
    { agent: world.agent, running: world.running },
    { agent: other, running },
  ]
  return async () => {
    await Promise.all(places.map((place) => place.running.kill()))
    await world.stop()
  }
}, 300_000)

const explain = () =>
  `first: ${places[0].running.logTail(12)}\nsecond: ${places[1].running.logTail(12)}\nbroker: ${world.broker.logTail(5)}`
const soon = <T>(what: string, probe: () => Promise<T | undefined>) => waitFor(what, probe, { limitMs: 120_000, onTimeout: explain })

interface Request {
  readonly work_type?: string
  readonly agents?: readonly Pick<Place, 'agent'>[]
  readonly max_retries?: number
  readonly claim_timeout_seconds?: number
  readonly backoff_seconds?: number
}
const order = async (objects: readonly object[], { agents, ...request }: Request = {}): Promise<string> => {
  const yaml_content = objects.map((object) => JSON.stringify(object)).join('\n---\n')
  const targeting = agents === undefined ? { labels: [shared] } : { agent_ids: agents.map(({ agent }) => agent.agent.id) }
  return (await world.broker.admin.createWorkOrder({ body: { work_type: 'custom', yaml_content, targeting, ...request } })).id
}
const readOrder = (id: string): Promise<WorkOrder> => world.broker.admin.getWorkOrder({ params: { id } })
const logged = (id: string): Promise<WorkOrderLog> =>
  soon(`the end of order ${id}`, () => world.broker.admin.getWorkOrderLog({ params: { id } }).catch(() => undefined))
/** `outcome` is the course that the played node gives the pod; without it the Job completes. */
const job = (name: string, outcome?: 'fail' | 'pending') => {
  const metadata = outcome === undefined ? {} : { labels: { 'practice.brokkr.io/outcome': outcome } }
  const template = { metadata, spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'example.invalid/x' }] } }
  return { apiVersion: 'batch/v1', kind: 'Job', metadata: { name, namespace }, spec: { backoffLimit: 0, template } }
}
const build = (name: string) => ({
  apiVersion: 'shipwright.io/v1beta1',
  kind: 'Build',
  metadata: { name, namespace },
  spec: { output: { image: 'registry.example/app' } },
})
interface Live {
  readonly metadata: { readonly uid: string; readonly labels: Record<string, string> }
}
const readJob = async (name: string): Promise<Live | undefined> => {
  const { status, json } = await at.api('GET', `/apis/batch/v1/namespaces/${namespace}/jobs/${name}`)
  return status === 200 ? (json as Live) : undefined
}
const runsOf = async (id: string) =>
  (await buildRuns(at, namespace)).filter(({ metadata }) => metadata.labels['brokkr.io/work-order-id'] === id)
const succeeded = (digest: string) => ({ conditions: [{ type: 'Succeeded', status: 'True' }], output: { digest } })

test('[A40] two agents race for ten orders: each has one Job or BuildRun and one result', async () => {
  const names = Array.from({ length: 9 }, (_, n) => `raced-${n}`)
  const ids = await Promise.all(names.map((name) => order([job(name)])))
  const buildId = await order([build('raced')], { work_type: 'build' })
  const run = await soon('the BuildRun', async () => (await runsOf(buildId))[0])
  await endRun(at, namespace, run.metadata.name, succeeded('sha256:raced'))
  for (const id of [...ids, buildId]) {
    const entry = await logged(id)
    expect([entry.success, entry.retries_attempted]).toEqual([true, 0])
    const claims = await runSql(
      world.broker.databaseUrl,
      `select from audit_logs where action = 'workorder.claimed' and resource_id = $1`,
      [id],
    )
    expect(claims).toHaveLength(1)
  }
  for (const [n, name] of names.entries()) {
    const live = await readJob(name)
    expect(live?.metadata.labels).toMatchObject({
      'brokkr.io/work-order-id': ids[n],
      'brokkr.io/work-order-attempt': '1',
      'brokkr.io/owner-id': (await logged(ids[n]!)).claimed_by,
    })
  }
  expect(await runsOf(buildId)).toHaveLength(1)
}, 240_000)

test('[A41] an agent that was killed adopts its BuildRun within the claim', async () => {
  const id = await order([build('adopted')], { work_type: 'build', agents: [places[0]] })
  const run = await soon('the BuildRun', async () => (await runsOf(id))[0])
  await places[0].running.kill('SIGKILL')
  places[0].running = await places[0].running.again()
  await endRun(at, namespace, run.metadata.name, succeeded('sha256:adopted'))
  expect(await logged(id)).toMatchObject({ success: true, result_message: 'sha256:adopted', retries_attempted: 0 })
  expect((await runsOf(id)).map(({ metadata }) => metadata.uid)).toEqual([run.metadata.uid])
}, 240_000)

test('[A41] a result after the end of the claim is refused and changes nothing', async () => {
  const [first] = places
  // The next holder is in another cluster; this one sends only what an agent sends to the broker.
  const heir = await createAgent(world.broker, { generators: [world.tenant] })
  const id = await order([build('late')], { work_type: 'build', max_retries: 3, agents: [first, { agent: heir }] })
  const late = await soon('the BuildRun', async () => (await runsOf(id))[0])
  await first.running.kill('SIGKILL')
  await runSql(world.broker.databaseUrl, `update work_orders set claimed_until = now() - interval '1 second' where id = $1`, [id])
  await soon('the end of the claim', async () => ((await readOrder(id)).status === 'PENDING' ? true : undefined))
  const claim = await heir.client.claimWorkOrder({ params: { id }, body: { agent_id: heir.agent.id } })
  expect(claim.attempt).toBe(2)
  // The first agent returns, adopts its BuildRun and reports under its own attempt.
  first.running = await first.running.again()
  await endRun(at, namespace, late.metadata.name, succeeded('sha256:late'))
  await soon('the end at the first agent', async () =>
    first.running.lines().find(({ msg, id: ended }) => msg === 'work order ended' && ended === id),
  )
  // A refused result is an answer: the agent ends the order, and its record keeps only what clean-up needs.
  const hasEnded = async () => {
    const { json } = await at.api('GET', `/api/v1/namespaces/${world.own}/secrets/brokkr-order-${id}`)
    const data = (json as { data?: Record<string, string> }).data?.['order.json.gz'] ?? ''
    return data !== '' && gunzipSync(Buffer.from(data, 'base64')).includes('"order":null') ? true : undefined
  }
  await soon('the report of the first agent', hasEnded)
  expect(await readOrder(id)).toMatchObject({ status: 'CLAIMED', claimed_by: heir.agent.id, attempt: 2 })
  await heir.client.call('completeWorkOrder', { params: { id }, body: { success: true, message: 'second', attempt: 2 } })
  expect(await logged(id)).toMatchObject({ success: true, result_message: 'second', claimed_by: heir.agent.id })
}, 240_000)

test('[A42] a failed Job ends its order although retries are left', async () => {
  const id = await order([job('fails', 'fail')], { max_retries: 3 })
  expect(await logged(id)).toMatchObject({
    success: false,
    retries_attempted: 0,
    result_message: expect.stringContaining('failed') as string,
  })
}, 120_000)

test('[A42] the next attempt of a retryable order creates its Job again', async () => {
  const id = await order([job('slow', 'pending')], {
    agents: [places[0]],
    max_retries: 1,
    claim_timeout_seconds: 6,
    backoff_seconds: 1,
  })
  const first = await soon('the Job', () => readJob('slow'))
  const entry = await logged(id)
  expect([entry.success, entry.retries_attempted]).toEqual([false, 1])
  const last = await readJob('slow')
  expect(last?.metadata.uid).not.toBe(first.metadata.uid)
  expect([first, last].map((one) => one?.metadata.labels['brokkr.io/work-order-attempt'])).toEqual(['1', '2'])
}, 120_000)

test('[A43] the diagnostics of sixty pods with long logs are bounded, valid, and without secrets', async () => {
  const canary = unique('canary')
  const stack = await world.stack()
  const labels = { app: 'verbose' }
  const container = { name: 'c', image: 'example.invalid/x', env: [{ name: 'PASSWORD', value: canary }] }
  const { id: objectId, sequence_id } = await world.submit(
    stack.id,
    {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      metadata: { name: 'verbose', namespace },
      spec: { replicas: 60, selector: { matchLabels: labels }, template: { metadata: { labels }, spec: { containers: [container] } } },
    },
    { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'verbose', namespace }, stringData: { password: canary } },
    { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'verbose', namespace }, data: { text: canary } },
  )
  await world.reported(stack.id, 'applied', sequence_id)
  const running = async () => {
    const pods = (await at.api('GET', `/api/v1/namespaces/${namespace}/pods?labelSelector=app=verbose`)).json as {
      items: { status: { phase: string } }[]
    }
    return pods.items.filter(({ status }) => status.phase === 'Running').length === 60 || undefined
  }
  await soon('sixty pods', running)
  // Every played pod has this log: sixty times two hundred kibibytes, with what needs escapes in JSON.
  const line = `${new Date().toISOString()} stdout F "\\\t${'x'.repeat(2048)}é\n`
  await appendFile(at.podLogPath, line.repeat(100))
  const { id } = await world.broker.admin.createDiagnosticRequest({
    params: { id: objectId },
    body: { agent_id: world.agent.agent.id },
  })
  const result = await soon('the result', async () => (await world.broker.admin.getDiagnostic({ params: { id } })).result ?? undefined)
  const { pod_statuses, events, log_tails } = result
  const statuses = JSON.parse(pod_statuses) as { name: string; containers: { name: string }[] }[]
  expect(statuses.length).toBeGreaterThan(0)
  expect(statuses[0]).toMatchObject({ phase: 'Running', containers: [{ name: 'c' }] })
  expect(Array.isArray(JSON.parse(events))).toBe(true)
  const tails = Object.entries(JSON.parse(log_tails ?? '') as Record<string, string>)
  expect(tails.length).toBeGreaterThan(5)
  expect(tails[0]?.[1]).toContain('xxxx')
  expect(Buffer.byteLength(JSON.stringify({ pod_statuses, events, log_tails }))).toBeLessThanOrEqual(1.5 * 1024 * 1024)
  expect(JSON.stringify(result)).not.toContain(canary)
}, 240_000)
