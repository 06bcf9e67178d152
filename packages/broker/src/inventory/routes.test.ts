// Resource trees over HTTP, against a real broker.
import type { NewTreeNode } from '@brokkr/contract/stacks/resource-tree.ts'
import { createAgent, createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  return () => broker.kill()
})

async function setup() {
  const tenant = await createGenerator(broker)
  const label = unique('l')
  const agents = [
    await createAgent(broker, { generators: [tenant], labels: [label] }),
    await createAgent(broker, { generators: [tenant], labels: [label] }),
  ] as const
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const report = (tree: object, agent = agents[0]) =>
    ask(broker, `POST /agents/${agent.agent.id}/inventory`, { pak: agent.pak, body: { stack_id: stack.id, ...tree } })
  const read = (query = '') => tenant.client.getStackTree({ params: { id: stack.id }, query: query === '' ? {} : { agent_id: query } })
  const names = async () => (await read(agents[0].agent.id))[0]?.nodes.map(({ name, health }) => `${name} ${health}`).toSorted()
  return { tenant, agents, stack, report, read, names }
}
const node = (name: string, more: Partial<NewTreeNode> = {}): NewTreeNode => ({
  uid: `u-${name}`,
  group: 'apps',
  kind: 'Deployment',
  name,
  health: 'healthy',
  ...more,
})

test('a complete tree is stored and read per agent', async () => {
  const { agents, report, read } = await setup()
  expect((await report({ rev: 1, full: true, nodes: [node('web'), node('pod', { kind: 'Pod', owner_uid: 'u-web' })] })).status).toBe(204)
  expect((await report({ rev: 3, full: true, nodes: [] }, agents[1])).status).toBe(204)
  const trees = await read()
  const sizes = trees.map(({ agent_id, rev, nodes }) => `${agent_id} ${rev} ${nodes.length}`)
  expect(new Set(sizes)).toEqual(new Set([`${agents[0].agent.id} 1 2`, `${agents[1].agent.id} 3 0`]))
  const [own] = await read(agents[0].agent.id)
  expect(own?.nodes.find(({ name }) => name === 'web')).toEqual({ ...node('web'), namespace: null, owner_uid: null, message: null })
})

test('a delta changes, adds and removes nodes of the stored tree', async () => {
  const { report, names } = await setup()
  await report({ rev: 1, full: true, nodes: [node('a'), node('b'), node('c')] })
  const delta = { rev: 1, full: false, nodes: [node('b', { health: 'failing' }), node('d')], removed_uids: ['u-a', 'u-unknown'] }
  expect((await report(delta)).status).toBe(204)
  expect(await names()).toEqual(['b failing', 'c healthy', 'd healthy'])
})

test('a resource tree report with an older rev is ignored', async () => {
  const { report, names } = await setup()
  await report({ rev: 5, full: true, nodes: [node('new')] })
  expect((await report({ rev: 4, full: true, nodes: [node('old')] })).status).toBe(204)
  expect((await report({ rev: 4, full: false, nodes: [node('old')] })).status).toBe(204)
  expect(await names()).toEqual(['new healthy'])
})

test('a delta without a stored tree is answered with inventory_base_unknown', async () => {
  const { report, read } = await setup()
  const answer = await report({ rev: 1, full: false, nodes: [node('a')] })
  expect([answer.status, answer.code]).toEqual([409, 'inventory_base_unknown'])
  expect(await read()).toEqual([])
})

test('a delta whose base is not the stored tree is answered with inventory_base_unknown', async () => {
  const { report, names } = await setup()
  await report({ rev: 2, full: true, nodes: [node('a'), node('b')] })
  const delta = { rev: 2, full: false, nodes: [node('c')], removed_uids: [] }
  for (const base of [
    { base_rev: 1, base_nodes: 2 },
    { base_rev: 2, base_nodes: 3 },
  ]) {
    const answer = await report({ ...delta, ...base })
    expect([answer.status, answer.code]).toEqual([409, 'inventory_base_unknown'])
  }
  expect(await names()).toEqual(['a healthy', 'b healthy'])
  expect((await report({ ...delta, base_rev: 2, base_nodes: 2 })).status).toBe(204)
  expect(await names()).toEqual(['a healthy', 'b healthy', 'c healthy'])
})

test('the trees of a deleted agent are deleted with it', async () => {
  const { agents, report } = await setup()
  await report({ rev: 1, full: true, nodes: [node('a')] })
  const stored = () => runSql(broker.databaseUrl, 'select from agent_stack_inventory where agent_id = $1', [agents[0].agent.id])
  expect(await stored()).toHaveLength(1)
  await broker.admin.deleteAgent({ params: { id: agents[0].agent.id } })
  expect(await stored()).toEqual([])
})

test('a tree of more than 5,000 nodes is refused and the stored tree stays', async () => {
  const { report, names } = await setup()
  const many = Array.from({ length: 5000 }, (_, n) => node(`n${n}`))
  expect((await report({ rev: 1, full: true, nodes: [...many, node('x')] })).code).toBe('validation_failed')
  await report({ rev: 1, full: true, nodes: many })
  const answer = await report({ rev: 2, full: false, nodes: [node('x')] })
  expect([answer.status, answer.code]).toEqual([422, 'limit_exceeded'])
  expect(await names()).toHaveLength(5000)
})

test('a tree of a stack that does not target the agent is refused', async () => {
  const [{ report }, other] = [await setup(), await setup()]
  const answer = await report({ rev: 1, full: true, nodes: [], stack_id: other.stack.id })
  expect([answer.status, answer.code]).toEqual([403, 'agent_not_associated'])
  expect(await other.read()).toEqual([])
})

test('the tree of an agent that removed the stack is no longer shown', async () => {
  const { tenant, agents, stack, report, read } = await setup()
  await report({ rev: 1, full: true, nodes: [node('a')] })
  await tenant.client.deleteStack({ params: { id: stack.id } })
  const removed = { stack_id: stack.id, rev: 9, object_id: null, phase: 'removed', observed_at: new Date().toISOString() } as const
  await agents[0].client.reportStatus({ params: { id: agents[0].agent.id }, body: { session: 1, n: 1, stacks: [removed] } })
  expect((await ask(broker, `GET /stacks/${stack.id}/tree`)).code).toBe('stack_not_found')
  await expect(read()).rejects.toMatchObject({ code: 'stack_not_found' })
})
