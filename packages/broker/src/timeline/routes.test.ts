import { randomUUID } from 'node:crypto'
import type { TimelineEntry } from '@brokkr/contract/timeline/timeline.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
} from '@brokkr/testing/broker.ts'
import { configMapYaml } from '@brokkr/testing/feed-world.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { beforeAll, expect, test } from 'vitest'

let db: TestDatabase
let broker: TestBroker
let tenant: TestGenerator
let agents: readonly TestAgent[]
beforeAll(async () => {
  db = await database()
  broker = await startTestBroker({ databaseUrl: db.url })
  tenant = await createGenerator(broker)
  agents = await Promise.all(['t-1', 't-2', 't-3'].map((name) => createAgent(broker, { name, labels: ['t'], generators: [tenant] })))
  return () => broker.kill()
})
/** Days are long enough that no boundary falls into a test, except at midnight; sums are therefore added up over steps. */
const list = (query: Record<string, unknown> = {}) => broker.admin.listTimeline({ query: { step: 'day', ...query } })
const sum = (entries: readonly TimelineEntry[], field: 'records' | 'agents' = 'records') =>
  entries.reduce((total, entry) => total + entry[field], 0)

async function deploy(name: string) {
  const stack = await tenant.client.createStack({ body: { name, generator_id: tenant.generator.id, labels: ['t'] } })
  const submit = () =>
    tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: configMapYaml(randomUUID()) } })
  const first = await submit()
  return { stack, objects: [first, await submit()] as const }
}

test('the timeline shows versions, results per stack and changes with names, newest first', async () => {
  const { stack, objects } = await deploy('timeline')
  for (const [index, { agent, client }] of agents.entries())
    await client.createEvent({
      params: { id: agent.id },
      body: {
        agent_id: agent.id,
        deployment_object_id: objects[1].id,
        event_type: 'DEPLOY',
        status: index === 0 ? 'FAILURE' : 'SUCCESS',
        message: index === 0 ? 'no such image' : 'applied',
      },
    })
  await broker.admin.holdStack({ params: { id: stack.id }, body: { reason: 'noon' } })
  const entries = await list()
  const ofStack = entries.filter((entry) => entry.stack_id === stack.id)
  expect(ofStack.every(({ stack_name }) => stack_name === 'timeline')).toBe(true)
  const [held] = ofStack
  expect(held).toMatchObject({ kind: 'change', action: 'stack.held', actor_name: 'admin', records: 1 })
  const deployed = ofStack.filter(({ kind }) => kind === 'deployment')
  expect(sum(deployed)).toBe(2)
  expect(deployed[0]).toMatchObject({
    action: 'deployment.created',
    actor_name: tenant.generator.name,
    deployment_object_id: objects[1].id,
    sequence_id: objects[1].sequence_id,
  })
  const applied = ofStack.filter(({ kind, status }) => kind === 'agent' && status === 'SUCCESS')
  expect([sum(applied), sum(applied, 'agents'), applied[0]!.agent_name, applied[0]!.message]).toEqual([2, 2, 't-3', null])
  const [failed] = ofStack.filter(({ status }) => status === 'FAILURE')
  expect(failed).toMatchObject({
    action: 'DEPLOY',
    agents: 1,
    agent_name: 't-1',
    message: 'no such image',
    sequence_id: objects[1].sequence_id,
  })
  const times = entries.map(({ at }) => at)
  expect(times).toEqual(times.toSorted().toReversed())
})

test('pages of records cover the timeline once, also where they hold no change; a cursor is bound to its query', async () => {
  await deploy('paged')
  // Rows that the timeline leaves out, between those that it shows.
  const client = await db.connect()
  await client.query(
    `insert into audit_logs (id, actor_type, action, resource_type) select gen_random_uuid(), 'system', 'auth.failed', 'system' from generate_series(1, 20)`,
  )
  await client.end()
  await deploy('paged-too')
  const to = new Date().toISOString()
  const whole = await list({ to, limit: 2000 })
  const pages: TimelineEntry[][] = []
  const readPage = (after: string | null) =>
    broker.admin.call('listTimeline', { query: { step: 'day' as const, to, limit: 7, ...(after === null ? {} : { cursor: after }) } })
  let cursor: string | null = null
  do {
    const page = await readPage(cursor)
    pages.push(page.body)
    cursor = page.header('x-next-cursor')
  } while (cursor !== null)
  expect(pages.length).toBeGreaterThan(3)
  expect(pages.some((page) => page.length === 0)).toBe(true)
  expect(sum(pages.flat())).toBe(sum(whole))
  const versions = (entries: readonly TimelineEntry[]) =>
    sum(entries.filter((entry) => entry.kind === 'deployment' && entry.stack_name === 'paged'))
  expect([versions(pages.flat()), versions(whole)]).toEqual([2, 2])
  const first = await broker.admin.call('listTimeline', { query: { step: 'day' as const, limit: 1 } })
  const foreign = { step: 'minute', limit: 1, cursor: first.header('x-next-cursor')! }
  await expect(list(foreign)).rejects.toMatchObject({ code: 'invalid_cursor' })
})

test('from is inclusive and to is exclusive; other values are refused', async () => {
  const { stack } = await deploy('bounded')
  const at = (await list({ step: 'minute' })).find(({ stack_id, kind }) => stack_id === stack.id && kind === 'deployment')!.at
  const isShown = async (query: object) => (await list({ step: 'minute', ...query })).some((entry) => entry.at === at)
  expect([await isShown({ from: at }), await isShown({ to: at })]).toEqual([true, false])
  expect(await list({ from: '2999-01-01T00:00:00Z' })).toEqual([])
  for (const query of [{ step: 'week' }, { limit: 0 }, { from: 'yesterday' }])
    await expect(list(query)).rejects.toMatchObject({ code: 'invalid_query_parameter' })
})
