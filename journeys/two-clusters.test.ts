// The whole product over two clusters: one broker, two agents, two API servers. Work goes to both, moves from one to the other,
// outlives a broker that is gone, and outlives a database that was restored from an old backup.
import type { StackId } from '@brokkr/contract/wire.ts'
import { type AgentProcess, startTestAgent } from '@brokkr/testing/agent.ts'
import { type AuditedCluster, auditedCluster, isDelete } from '@brokkr/testing/audited-cluster.ts'
import {
  makeAgent,
  makeGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestTenant,
  unique,
} from '@brokkr/testing/broker.ts'
import { type PrivatePostgres, privatePostgres } from '@brokkr/testing/postgres.ts'
import { coldBackup } from '@brokkr/testing/postgres-backup.ts'
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
let tenant: TestTenant
let north: Place
let south: Place
const everywhere = unique('everywhere')
const namespace = 'shop'

beforeAll(async () => {
  server = await privatePostgres()
  broker = await startTestBroker({ databaseUrl: (await server.database()).url })
  tenant = await makeGenerator(broker)
  north = await place('north')
  south = await place('south')
  return async () => {
    for (const { running, at } of [north, south]) {
      await running.kill()
      await at.stop()
    }
    await broker.kill()
    await server.stop()
  }
}, 400_000)

async function place(name: string): Promise<Place> {
  const at = await auditedCluster()
  await at.api('POST', '/api/v1/namespaces', { body: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } } })
  const label = unique(name)
  const agent = await makeAgent(broker, { name: unique(name), labels: [label, everywhere], generators: [tenant] })
  const env = { BROKKR__AGENT__POLLING_INTERVAL: '1', BROKKR__AGENT__RECONNECT_MAX_SECONDS: '1', BROKKR__AGENT__SNAPSHOT_INTERVAL: '5' }
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

test('what is submitted once runs in both clusters', async () => {
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

test('a stack whose label moves leaves one cluster and arrives in the other; an object that two stacks share is never absent', async () => {
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

test('while the broker is gone drift is healed in both clusters, and what happened is told afterwards, in order', async () => {
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

test('a database that was restored from an old backup takes nothing away', async () => {
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
    const lists = () => running.lines().filter(({ msg, held }) => msg === 'removal held by the guard' && Number(held) > 0).length
    await soon('two more lists', async () => lists() >= 3)
  }
  await north.running.kill()
  north = { ...north, running: await north.running.again() }
  await soon('the list after the restart', async () => north.running.lines().some(({ msg }) => msg === 'removal held by the guard'))
  expect(await deletesOf(north, marks[0]!)).toEqual([])
  expect(await deletesOf(south, marks[1]!)).toEqual([])
  for (const where of [north, south]) expect((await read(where, 'after'))?.data).toEqual({ v: '1' })
  // Somebody who knows says that it may go.
  await broker.admin.approvePrune({ params: { id: south.agent.agent.id }, body: { removals: 1 } })
  await has(south, 'after', null)
  expect(await deletesOf(south, marks[1]!)).toContain('configmaps after')
}, 600_000)
