// The thinnest whole product: broker and agent as processes, a real PostgreSQL, a real API server. One deployment object
// from POST to the cluster and back, through updates, removal, kills and late commits.
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
import { openSubmission } from '@brokkr/testing/late-submission.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let at: TestCluster
let db: TestDatabase
let broker: TestBroker
let tenant: TestGenerator
let agent: TestAgent
let running: AgentProcess
const label = unique('env')

beforeAll(async () => {
  at = await cluster()
  db = await database()
  broker = await startTestBroker({ databaseUrl: db.url })
  tenant = await createGenerator(broker)
  agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  running = await startTestAgent({ broker, agent, kubeconfigPath: at.kubeconfigPath, namespace: await at.namespace('agent') })
  return async () => {
    await running.kill()
    await broker.kill()
  }
})

const configMap = (namespace: string, name: string, data: Record<string, string>) =>
  JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data })
const makeStack = (name = unique('stack')) =>
  tenant.client.createStack({ body: { name, generator_id: tenant.generator.id, labels: [label] } })
const submit = (stackId: string, ...documents: string[]) =>
  tenant.client.createDeploymentObject({ params: { id: stackId }, body: { yaml_content: documents.join('\n---\n') } })
interface Found {
  readonly data: Record<string, string>
  readonly metadata: { readonly uid: string; readonly resourceVersion: string; readonly labels: Record<string, string> }
}
const read = async (namespace: string, name: string): Promise<Found | null> => {
  const { status, json } = await at.api('GET', `/api/v1/namespaces/${namespace}/configmaps/${name}`)
  return status === 200 ? (json as Found) : null
}
const explain = () => `agent: ${running.logTail(15)}\nbroker: ${broker.logTail(5)}`
const statusOf = async (stackId: string) => (await tenant.client.getStackStatus({ params: { id: stackId } })).agents[0]
const reported = (stackId: string, phase: string, sequence: number | null) =>
  waitFor(
    `status ${phase} ${sequence}`,
    async () => {
      const status = await statusOf(stackId)
      return status?.phase === phase && status.sequence_id === sequence ? status : undefined
    },
    { onTimeout: async () => `${JSON.stringify(await statusOf(stackId))}\n${explain()}` },
  )
const seen = (namespace: string, name: string, is: (found: Found | null) => boolean) =>
  waitFor(`ConfigMap ${name}`, async () => ((found) => (is(found) ? { found } : undefined))(await read(namespace, name)), {
    onTimeout: explain,
  })

test('a submitted object is applied, reported with its sequence, and updated by the next', async () => {
  const namespace = await at.namespace('first')
  const stack = await makeStack()
  const first = await submit(stack.id, configMap(namespace, 'greeting', { text: 'hello' }), configMap(namespace, 'other', { a: '1' }))
  expect(first.sequence_id).toBe(1)
  const { found } = await seen(namespace, 'greeting', (map) => map?.data['text'] === 'hello')
  expect(found?.metadata.labels).toMatchObject({
    'brokkr.io/stack': stack.id,
    'brokkr.io/owner-id': agent.agent.id,
    'brokkr.io/deployment-object-id': first.id,
  })
  expect(await reported(stack.id, 'applied', 1)).toMatchObject({ stale: false, desired_sequence_id: 1, deployment_object_id: first.id })
  const other = await read(namespace, 'other')

  const second = await submit(
    stack.id,
    configMap(namespace, 'greeting', { text: 'hello again' }),
    configMap(namespace, 'other', { a: '1' }),
  )
  await reported(stack.id, 'applied', 2)
  expect((await read(namespace, 'greeting'))?.data).toEqual({ text: 'hello again' })
  // What did not change was not written again, although the revision did.
  expect((await read(namespace, 'other'))?.metadata.resourceVersion).toBe(other?.metadata.resourceVersion)
  const events = await broker.admin.listEvents({ params: { id: agent.agent.id } })
  const ofStack = events
    .filter((event) => [first.id, second.id].includes(event.deployment_object_id))
    .map(({ event_type, status }) => `${event_type} ${status}`)
  expect(ofStack.toReversed()).toEqual(['APPLIED SUCCESS', 'UPDATED SUCCESS'])
})

test('a dropped member is pruned, and a deletion marker removes the rest', async () => {
  const namespace = await at.namespace('marker')
  const stack = await makeStack()
  await submit(stack.id, configMap(namespace, 'stays', {}), configMap(namespace, 'goes', {}), configMap(namespace, 'stays-too', {}))
  await reported(stack.id, 'applied', 1)
  await at.api('POST', `/api/v1/namespaces/${namespace}/configmaps`, {
    body: { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'foreign' } },
  })
  await submit(stack.id, configMap(namespace, 'stays', {}), configMap(namespace, 'stays-too', {}))
  await reported(stack.id, 'applied', 2)
  expect(await read(namespace, 'goes')).toBeNull()
  expect(await read(namespace, 'stays')).not.toBeNull()

  await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: '', is_deletion_marker: true } })
  await seen(namespace, 'stays', (map) => map === null)
  await seen(namespace, 'stays-too', (map) => map === null)
  await reported(stack.id, 'removed', 3)
  expect(await read(namespace, 'foreign')).not.toBeNull()
})

test('a killed and restarted agent writes nothing that is unchanged', async () => {
  const namespace = await at.namespace('restart')
  const stack = await makeStack()
  await submit(stack.id, configMap(namespace, 'one', { a: '1' }), configMap(namespace, 'two', { b: '2' }))
  await reported(stack.id, 'applied', 1)
  const before = [await read(namespace, 'one'), await read(namespace, 'two')].map((map) => map?.metadata.resourceVersion)
  await running.kill('SIGKILL')
  running = await running.again()
  const marker = await makeStack()
  await submit(marker.id, configMap(namespace, 'three', { c: '3' }))
  await reported(marker.id, 'applied', 1)
  await reported(stack.id, 'applied', 1)
  expect([await read(namespace, 'one'), await read(namespace, 'two')].map((map) => map?.metadata.resourceVersion)).toEqual(before)
})

test('an agent without its broker heals drift and later applies missed changes', async () => {
  const namespace = await at.namespace('away')
  const stack = await makeStack()
  await submit(stack.id, configMap(namespace, 'kept', { a: '1' }))
  await reported(stack.id, 'applied', 1)
  await broker.kill('SIGKILL')
  const { found: lost } = await seen(namespace, 'kept', (map) => map !== null)
  await at.api('DELETE', `/api/v1/namespaces/${namespace}/configmaps/kept`)
  const { found: healed } = await seen(namespace, 'kept', (map) => map !== null && map.metadata.uid !== lost?.metadata.uid)
  expect(healed?.data).toEqual({ a: '1' })
  await at.api('PATCH', `/api/v1/namespaces/${namespace}/configmaps/kept`, {
    body: { data: { a: 'changed' } },
    contentType: 'application/merge-patch+json',
  })
  await seen(namespace, 'kept', (map) => map?.data['a'] === '1')
  broker = await broker.again()
  tenant = { ...tenant, client: broker.clientOf(tenant.pak) }
  await submit(stack.id, configMap(namespace, 'kept', { a: '2' }))
  await reported(stack.id, 'applied', 2)
  expect((await read(namespace, 'kept'))?.data).toEqual({ a: '2' })
})

test('two submissions that commit in reverse order are both applied', async () => {
  const namespace = await at.namespace('late')
  const [early, late] = [await makeStack(), await makeStack()]
  const held = await openSubmission({ connect: db.connect, encryptionKey: broker.encryptionKey }, late.id, configMap(namespace, 'late', {}))
  await submit(early.id, configMap(namespace, 'early', {}))
  await reported(early.id, 'applied', 1)
  expect(await read(namespace, 'late')).toBeNull()
  await held.commit()
  await reported(late.id, 'applied', held.sequence)
  expect(await read(namespace, 'late')).not.toBeNull()
})

test('a stack without its label is removed, and other stacks stay', async () => {
  const namespace = await at.namespace('label')
  const [leaving, staying] = [await makeStack(), await makeStack()]
  await submit(leaving.id, configMap(namespace, 'leaving', {}))
  await submit(staying.id, configMap(namespace, 'staying', {}))
  await reported(leaving.id, 'applied', 1)
  await reported(staying.id, 'applied', 1)
  await tenant.client.stacksRemoveLabel({ params: { id: leaving.id, label } })
  await seen(namespace, 'leaving', (map) => map === null)
  expect(await read(namespace, 'staying')).not.toBeNull()
})

test('a failed object is reported with its reason, and the next one heals the stack', async () => {
  const namespace = await at.namespace('wrong')
  const stack = await makeStack()
  await submit(
    stack.id,
    JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'wrong', namespace }, data: { a: 1 } }),
    configMap(namespace, 'right', {}),
  )
  const failed = await reported(stack.id, 'failed', 1)
  expect(failed.code).toBe('invalid')
  expect(failed.message).toContain('wrong')
  expect(await read(namespace, 'right')).toBeNull()
  await submit(stack.id, configMap(namespace, 'wrong', { a: '1' }), configMap(namespace, 'right', {}))
  await reported(stack.id, 'applied', 2)
})
