// The whole product over two clusters: one broker, two agents, two API servers. Work goes to both, moves from one to the other,
// outlives a broker that is gone, and outlives a database that was restored from an old backup.
import type { StackId } from '@brokkr/contract/wire.ts'
import { type AgentProcess, startTestAgent } from '@brokkr/testing/agent.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { type AuditedCluster, auditedCluster, isDelete, isWrite } from '@brokkr/testing/servers/audited-cluster.ts'
import { type PrivatePostgres, privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { coldBackup } from '@brokkr/testing/servers/postgres-backup.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'

interface Place {
  readonly at: AuditedCluster
  readonly agent: TestAgent
  readonly label: string
  readonly running: AgentProcess
}
interface Found {
  readonly data: Record<string, string>
  readonly metadata: { readonly uid: string }
}

let server: PrivatePostgres
let broker: TestBroker
let tenant: TestGenerator
let north: Place
let south: Place
const everywhere = unique('everywhere')
const namespace = 'shop'

beforeAll(async () => {
  server = await privatePostgres()
  broker = await startTestBroker({ databaseUrl: (await server.database()).url })
  tenant = await createGenerator(broker)
  north = await place('north')
  // Its local policy differs.
  south = await place('south', { BROKKR__AGENT__DENIED_KINDS: 'ServiceAccount' })
  return async () => {
    for (const { running, at } of [north, south]) {
      await running.kill()
      await at.stop()
    }
    await broker.kill()
    await server.stop()
  }
}, 400_000)

async function place(name: string, policy: Record<string, string> = {}): Promise<Place> {
  const at = await auditedCluster()
  await at.api('POST', '/api/v1/namespaces', { body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } } })
  const label = unique(name)
  const agent = await createAgent(broker, { name: unique(name), labels: [label, everywhere], generators: [tenant] })
  const env = {
    BROKKR__AGENT__POLLING_INTERVAL: '1',
    BROKKR__AGENT__RECONNECT_MAX_SECONDS: '1',
    BROKKR__AGENT__SNAPSHOT_INTERVAL: '5',
    ...policy,
  }
  return { at, agent, label, running: await startTestAgent({ broker, agent, kubeconfigPath: at.kubeconfigPath, env }) }
}

const map = (name: string, data: Record<string, string>, annotations: Record<string, string> = {}) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace, annotations }, data })
const makeStack = (...labels: string[]) =>
  tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels } })
const submit = (stackId: StackId, ...documents: string[]) =>
  tenant.client.createDeploymentObject({ params: { id: stackId }, body: { yaml_content: documents.join('\n---\n') } })
const read = async ({ at }: Place, name: string): Promise<Found | null> => {
  const { status, json } = await at.api('GET', `/api/v1/namespaces/${namespace}/configmaps/${name}`)
  return status === 200 ? (json as Found) : null
}
const explain = () => `north: ${north.running.logTail(12)}\nsouth: ${south.running.logTail(12)}\nbroker: ${broker.logTail(8)}`
const soon = (what: string, probe: () => Promise<boolean>) => waitFor(what, probe, { limitMs: 300_000, onTimeout: explain })
const has = (where: Place, name: string, value: string | null) =>
  soon(`${name} = ${value}`, async () => ((await read(where, name))?.data['v'] ?? null) === value)
/** As many as the lost history may have had: nothing in the numbers of transactions tells the two histories apart any more. */
async function useTransactions(count: number): Promise<void> {
  const client = new pg.Client({ connectionString: server.url() })
  await client.connect()
  for (let n = 0; n < count; n++) await client.query('select pg_current_xact_id()')
  await client.end()
}
const deletesOf = async ({ at }: Place, since: number) =>
  (await at.writes({ since })).filter(isDelete).map(({ resource, name }) => `${resource} ${name}`)

test('a stack submitted once runs in both clusters', async () => {
  const stack = await makeStack(everywhere)
  await submit(stack.id, map('both', { v: '1' }))
  await has(north, 'both', '1')
  await has(south, 'both', '1')
  await submit(stack.id, map('both', { v: '2' }))
  await has(north, 'both', '2')
  await has(south, 'both', '2')
  await soon('both to report', async () => {
    const { agents } = await tenant.client.getStackStatus({ params: { id: stack.id } })
    return agents.length === 2 && agents.every(({ phase, sequence_id }) => phase === 'applied' && sequence_id === 2)
  })
})

test('[A57] a plan counts its effect per cluster, names the silent one and writes nothing; apply is refused once it moved', async () => {
  const label = unique('planned')
  for (const { agent } of [north.agent, south.agent])
    await broker.admin.agentsAddLabel({ params: { id: agent.id }, body: { agent_id: agent.id, label } })
  const silent = await createAgent(broker, { name: unique('silent'), labels: [label], generators: [tenant] })
  const stack = await makeStack(label)
  const params = { id: stack.id }
  const secret = (password: string) =>
    JSON.stringify({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'planned', namespace }, stringData: { password } })
  const account = JSON.stringify({ apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'planned', namespace } })
  await submit(stack.id, map('planned', { v: '1' }), secret('old-canary'))
  await has(north, 'planned', '1')
  await has(south, 'planned', '1')
  const applied = async () => {
    const { agents } = await tenant.client.getStackStatus({ params })
    return agents.filter(({ phase }) => phase === 'applied').length === 2
  }
  await soon('both to report', applied)
  const marks = { north: await north.at.mark(), south: await south.at.mark() }

  const yaml_content = [map('planned', { v: '2' }), secret('new-canary'), account].join('\n---\n')
  const plan = await tenant.client.createPlan({ params, body: { yaml_content } })
  const readPlan = () => tenant.client.getPlan({ params: { id: plan.id } })
  await soon('both to answer', async () => (await readPlan()).results.filter(({ state }) => state === 'answered').length === 2)
  const { results } = await readPlan()
  const of = (id: string) => results.find(({ agent_id }) => agent_id === id)
  const nothing = { create: 0, update: 0, delete: 0, unchanged: 0, denied: 0, unchecked: 0 }
  expect(of(north.agent.agent.id)?.summary).toEqual({ ...nothing, create: 1, update: 2 })
  expect(of(south.agent.agent.id)?.summary).toEqual({ ...nothing, denied: 1, update: 2 })
  expect(of(silent.agent.id)).toMatchObject({ state: 'silent', reason: 'disconnected', summary: null, agent_name: silent.agent.name })
  expect(JSON.stringify(results)).not.toMatch(/canary|b2xkLWNhbmFye|bmV3LWNhbmFye/)
  const fields = of(north.agent.agent.id)?.changes.find(({ kind }) => kind === 'ConfigMap')?.fields
  expect(fields).toEqual([{ path: '/data/v', before: '1', after: '2', manager: 'brokkr-agent' }])
  for (const [where, since] of [
    [north, marks.north],
    [south, marks.south],
  ] as const) {
    const requests = (await where.at.writes({ since })).filter(({ name }) => name === 'planned')
    expect(requests.length).toBeGreaterThan(0)
    expect(requests.filter(isWrite)).toEqual([])
  }

  const apply = (content: string) =>
    tenant.client.createDeploymentObject({ params, query: { plan_id: plan.id }, body: { yaml_content: content } })
  await expect(apply(map('planned', { v: '3' }))).rejects.toMatchObject({ code: 'plan_outdated', details: { changed: ['content'] } })
  await broker.admin.agentsRemoveLabel({ params: { id: silent.agent.id, label } })
  await expect(apply(yaml_content)).rejects.toMatchObject({ code: 'plan_outdated', details: { changed: ['targets'] } })
  await broker.admin.agentsAddLabel({ params: { id: silent.agent.id }, body: { agent_id: silent.agent.id, label } })
  await apply(yaml_content)
  await has(north, 'planned', '2')
  await tenant.client.deleteStack({ params })
  await has(north, 'planned', null)
  await has(south, 'planned', null)
})

test('a moved label moves its stack, and an object shared by two stacks is never absent', async () => {
  const adopt = { 'brokkr.io/adopt': 'true' }
  const [moving, heir] = [await makeStack(north.label), await makeStack(unique('nobody'))]
  await submit(moving.id, map('shared', { v: 'old' }, adopt), map('moves', { v: '1' }))
  await submit(heir.id, map('shared', { v: 'new' }, adopt))
  await has(north, 'moves', '1')
  const { uid } = (await read(north, 'shared'))!.metadata
  // In the north the heir takes over what the moving stack leaves behind: first the put, then the del.
  await tenant.client.stacksAddLabel({ params: { id: heir.id }, body: north.label })
  await tenant.client.stacksAddLabel({ params: { id: moving.id }, body: south.label })
  await tenant.client.stacksRemoveLabel({ params: { id: moving.id, label: north.label } })
  await has(south, 'moves', '1')
  await has(north, 'moves', null)
  await has(north, 'shared', 'new')
  // The same object all the while: an absence would have given it another uid.
  expect((await read(north, 'shared'))?.metadata.uid).toBe(uid)
  expect((await read(south, 'shared'))?.data).toEqual({ v: 'old' })
})

test('drift is healed in both clusters without the broker and reported in order later', async () => {
  const stack = await makeStack(everywhere)
  const object = await submit(stack.id, map('kept', { v: '0' }))
  for (const where of [north, south]) await has(where, 'kept', '0')
  await broker.kill('SIGKILL')
  const until = performance.now() + size('journey.brokerDownMs')
  // More often would be a fight with somebody else, which is slowed down.
  const rounds = 4
  for (let round = 1; round <= rounds; round++) {
    for (const { at } of [north, south])
      await at.api('PATCH', `/api/v1/namespaces/${namespace}/configmaps/kept`, {
        body: { data: { v: `edit ${round}` } },
        contentType: 'application/merge-patch+json',
      })
    for (const where of [north, south]) await has(where, 'kept', '0')
  }
  await waitFor('the end of the outage', () => performance.now() >= until, { limitMs: 2 * size('journey.brokerDownMs') })
  broker = await broker.again()
  tenant = { ...tenant, client: broker.clientOf(tenant.pak) }
  for (const { agent } of [north, south]) {
    const drifts = async () =>
      (await broker.admin.listEvents({ params: { id: agent.agent.id } }))
        .filter(({ event_type, deployment_object_id }) => event_type === 'DRIFT' && deployment_object_id === object.id)
        .toReversed()
    await soon('the events', async () => (await drifts()).length >= rounds)
    const times = (await drifts()).map(({ occurred_at }) => occurred_at ?? '')
    expect(times).toEqual(times.toSorted())
  }
  await submit(stack.id, map('kept', { v: '1' }))
  for (const where of [north, south]) await has(where, 'kept', '1')
})

test('a database restored from an old backup removes nothing', async () => {
  const before = await makeStack(everywhere)
  await submit(before.id, map('before', { v: '1' }))
  for (const where of [north, south]) await has(where, 'before', '1')
  await broker.kill()
  const backup = await coldBackup(server)
  broker = await broker.again()
  tenant = { ...tenant, client: broker.clientOf(tenant.pak) }
  const after = await makeStack(everywhere)
  await submit(after.id, map('after', { v: '1' }))
  await submit(before.id, map('before', { v: '2' }))
  for (const where of [north, south]) {
    await has(where, 'after', '1')
    await has(where, 'before', '2')
  }
  await broker.kill()
  await backup.restore()
  await useTransactions(2_000)
  const marks = [await north.at.mark(), await south.at.mark()]
  broker = await broker.again()
  tenant = { ...tenant, client: broker.clientOf(tenant.pak) }
  // Both return to what survived, and go on: a later change arrives.
  const later = await makeStack(everywhere)
  await submit(later.id, map('later', { v: '1' }))
  for (const where of [north, south]) {
    await has(where, 'before', '1')
    await has(where, 'later', '1')
  }
  // Complete lists come every five seconds here. Two further ones, and then a restart, must not wear the memory out.
  for (const { running } of [north, south]) {
    const lists = () => running.lines().filter(({ msg, held }) => msg === 'removal held by the prune guard' && Number(held) > 0).length
    await soon('two more lists', async () => lists() >= 3)
  }
  await north.running.kill()
  north = { ...north, running: await north.running.again() }
  await soon('the list after the restart', async () => north.running.lines().some(({ msg }) => msg === 'removal held by the prune guard'))
  expect(await deletesOf(north, marks[0]!)).toEqual([])
  expect(await deletesOf(south, marks[1]!)).toEqual([])
  for (const where of [north, south]) expect((await read(where, 'after'))?.data).toEqual({ v: '1' })
  // Somebody who knows says that it may go.
  await broker.admin.approvePrune({ params: { id: south.agent.agent.id }, body: { removals: 1 } })
  await has(south, 'after', null)
  expect(await deletesOf(south, marks[1]!)).toContain('configmaps after')
}, 600_000)
