// Pages, deleted rows and entity tags over HTTP, against a real broker.
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../server/http-call.fixture.ts'

let broker: TestBroker
let tenant: TestGenerator
let label: string
let stackIds: string[]
beforeAll(async () => {
  broker = await startTestBroker()
  tenant = await createGenerator(broker)
  label = unique('l')
  stackIds = await Promise.all(Array.from({ length: 7 }, async (_, n) => (await makeStack(`page-${n % 3}-${n}`, [label])).id))
  return () => broker.kill()
})
const makeStack = (name: string = unique('s'), labels: string[] = []) =>
  tenant.client.createStack({ body: { name: `${name}-${unique('x')}`, generator_id: tenant.generator.id, labels } })
const submit = (id: string, text: string) =>
  ask(broker, `POST /stacks/${id}/deployment-objects`, { pak: tenant.pak, text, headers: { 'content-type': 'application/yaml' } })

interface Row {
  readonly id: string
  readonly name: string
}
/** Follows Link from page to page; `between` runs after each. */
async function walk(path: `/${string}`, options: { pak?: string; between?: () => Promise<unknown> } = {}): Promise<Row[][]> {
  const pages: Row[][] = []
  for (let next: string | null = path; next !== null; ) {
    const answer = await ask(broker, `GET ${next as `/${string}`}`, options.pak === undefined ? {} : { pak: options.pak })
    expect([answer.status, answer.header('x-truncated')]).toEqual([200, null])
    pages.push(answer.json as Row[])
    const link = /^<\/api\/v1(\/[^>]+)>; rel="next"$/.exec(answer.header('link') ?? '')?.[1] ?? null
    expect(link === null).toBe(answer.header('x-next-cursor') === null)
    next = link
    await options.between?.()
  }
  return pages
}

test('pages of a list make up the whole list, in its order, each row once', async () => {
  const whole = (await ask(broker, `GET /stacks?label=${label}`)).json as Row[]
  const pages = await walk(`/stacks?label=${label}&limit=3`)
  expect(pages.map((rows) => rows.length)).toEqual([3, 3, 1])
  expect(pages.flat()).toEqual(whole)
  expect(whole.map(({ id }) => id).toSorted()).toEqual(stackIds.toSorted())
  expect(whole.map(({ name }) => name)).toEqual(whole.map(({ name }) => name).toSorted())
})

test('rows inserted or deleted between pages neither hide nor repeat others', async () => {
  const seen = await walk(`/stacks?label=${label}&limit=2`, { pak: tenant.pak, between: () => makeStack('aaa-before-all', [label]) })
  const ids = seen.flat().map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  for (const id of stackIds) expect(ids).toContain(id)
})

test.each<[string, (made: Made) => `/${string}`, (made: Made) => string | undefined]>([
  ['agents', () => '/agents?name=NAME', () => undefined],
  ['generators', () => '/generators', () => undefined],
  ['paks', () => '/paks', () => undefined],
  ['targets', ({ agentId }) => `/agents/${agentId}/targets?reason=all`, () => undefined],
  ['registrations', ({ agentId }) => `/agents/${agentId}/registrations`, ({ pak }) => pak],
  ['registered agents', () => `/generators/${tenant.generator.id}/registered-agents`, () => tenant.pak],
  ['events', ({ agentId }) => `/agents/${agentId}/events`, ({ pak }) => pak],
  ['all events', ({ agentId }) => `/agent-events?agent_id=${agentId}`, () => undefined],
  ['all events of a stack', ({ stackId }) => `/agent-events?stack_id=${stackId}`, () => undefined],
  ['revisions', ({ stackId }) => `/stacks/${stackId}/deployment-objects?content=false`, () => tenant.pak],
])('the list of %s is paged', async (_, pathOf, pakOf) => {
  const made = await (once ??= makeAll())
  const path = pathOf(made).replace('NAME', made.name) as `/${string}`
  const pak = pakOf(made)
  const whole = (await ask(broker, `GET ${path}`, pak === undefined ? {} : { pak })).json as Row[]
  const mark = path.includes('?') ? '&' : '?'
  const pages = await walk(`${path}${mark}limit=2`, pak === undefined ? {} : { pak })
  expect(pages.flat()).toEqual(whole)
  expect(pages.length).toBe(Math.max(1, Math.ceil(whole.length / 2)))
  expect(whole.length).toBeGreaterThan(path.includes('name=') ? 0 : 1)
})
interface Made {
  readonly name: string
  readonly agentId: string
  readonly stackId: string
  readonly pak: string
}
let once: Promise<Made> | undefined
async function makeAll(): Promise<Made> {
  const more = [await createGenerator(broker), await createGenerator(broker)]
  await createAgent(broker, { generators: [tenant] })
  const { agent, pak, client } = await createAgent(broker, { labels: [label], generators: [tenant, ...more] })
  const stackId = stackIds[0]!
  for (let n = 0; n < 5; n += 1) {
    const object = await tenant.client.createDeploymentObject({ params: { id: stackId }, body: { yaml_content: `n: ${n}` } })
    const event = { agent_id: agent.id, deployment_object_id: object.id, event_type: 'DEPLOY', status: 'SUCCESS' }
    await client.createEvent({ params: { id: agent.id }, body: event })
  }
  return { name: agent.name, agentId: agent.id, stackId, pak }
}

test('a list without a limit is cut at its maximum with a link to the rest', async () => {
  const stack = await makeStack()
  for (let n = 0; n < 101; n += 1) await submit(stack.id, `n: ${n}`)
  const path = `/stacks/${stack.id}/deployment-objects` as const
  const answer = await ask(broker, `GET ${path}`)
  expect([(answer.json as Row[]).length, answer.header('x-truncated')]).toEqual([100, 'true'])
  const rest = await ask(broker, `GET ${path}?cursor=${answer.header('x-next-cursor')}`)
  expect([(rest.json as Row[]).length, rest.header('x-truncated'), rest.header('link')]).toEqual([1, null, null])
})

test('a page ends at 8 MiB, but never before its first row', async () => {
  const stack = await makeStack()
  const text = `a: "${'x'.repeat(1_000_000)}"\n---\n`.repeat(5)
  for (let n = 0; n < 3; n += 1) expect((await submit(stack.id, text)).status).toBe(201)
  const pages = await walk(`/stacks/${stack.id}/deployment-objects?limit=10`)
  expect(pages.map((rows) => rows.length)).toEqual([1, 1, 1])
  const light = await walk(`/stacks/${stack.id}/deployment-objects?limit=10&content=false`)
  expect(light.map((rows) => rows.length)).toEqual([3])
})

test.each([
  ['limit=0', 'invalid_query_parameter'],
  ['limit=-1', 'invalid_query_parameter'],
  ['limit=x', 'invalid_query_parameter'],
  ['limit=1.5', 'invalid_query_parameter'],
  ['limit=1&limit=2', 'invalid_query_parameter'],
  ['cursor=', 'invalid_cursor'],
  ['cursor=e30', 'invalid_cursor'],
  [`cursor=${'a'.repeat(2049)}`, 'invalid_query_parameter'],
  ['include_deleted=maybe', 'invalid_query_parameter'],
])('%s → %s', async (query, code) => {
  expect((await ask(broker, `GET /stacks?${query}`)).code).toBe(code)
})

test('a list limit is at most a thousand, and a cursor is bound to its list and caller', async () => {
  expect((await ask(broker, `GET /stacks?limit=100000`)).status).toBe(200)
  const cursor = (await ask(broker, `GET /stacks?label=${label}&limit=1`)).header('x-next-cursor')
  expect((await ask(broker, `GET /stacks?label=${label}&limit=2&cursor=${cursor}`)).status).toBe(200)
  for (const path of [
    `/stacks?cursor=${cursor}`,
    `/stacks?label=other&cursor=${cursor}`,
    `/agents?label=${label}&cursor=${cursor}`,
  ] as const)
    expect((await ask(broker, `GET ${path}`)).code, path).toBe('invalid_cursor')
  expect((await ask(broker, `GET /stacks?label=${label}&cursor=${cursor}`, { pak: tenant.pak })).code).toBe('invalid_cursor')
})

test('deleted resources are listed on request for admins and owners', async () => {
  const stack = await makeStack()
  const object = (await submit(stack.id, 'a: 1')).json as Row
  await tenant.client.deleteStack({ params: { id: stack.id } })
  const statuses = (path: string) =>
    Promise.all([broker.adminPak, tenant.pak].map(async (pak) => (await ask(broker, `GET ${path as `/${string}`}`, { pak })).status))
  expect(await statuses(`/stacks/${stack.id}`)).toEqual([404, 404])
  expect(await statuses(`/stacks/${stack.id}?include_deleted=true`)).toEqual([200, 404])
  expect(await statuses(`/stacks/${stack.id}/deployment-objects?include_deleted=true`)).toEqual([200, 200])
  expect(await statuses(`/deployment-objects/${object.id}`)).toEqual([404, 404])
  expect(await statuses(`/deployment-objects/${object.id}?include_deleted=true`)).toEqual([200, 200])
  const foreign = await createGenerator(broker)
  const denied = await ask(broker, `GET /deployment-objects/${object.id}?include_deleted=true`, { pak: foreign.pak })
  expect(denied.code).toBe('generator_not_associated')
  const named = async (query: string, pak: string) =>
    ((await ask(broker, `GET /stacks?name=${stack.name}${query}`, { pak })).json as Row[]).length
  expect([await named('', broker.adminPak), await named('&include_deleted=true', broker.adminPak)]).toEqual([0, 1])
  expect(await named('&include_deleted=true', tenant.pak)).toBe(0)
})

test('a deleted agent and generator, and the events of the agent, can still be read by admins', async () => {
  const gone = await createGenerator(broker)
  const { agent } = await createAgent(broker, { generators: [gone] })
  await ask(broker, `DELETE /agents/${agent.id}`)
  await ask(broker, `DELETE /generators/${gone.generator.id}`)
  for (const path of [`/agents/${agent.id}`, `/agents/${agent.id}/events`, `/generators/${gone.generator.id}`] as const) {
    expect((await ask(broker, `GET ${path}`)).status, path).toBe(404)
    expect((await ask(broker, `GET ${path}?include_deleted=true`)).status, path).toBe(200)
  }
  const lists = [`/agents?name=${agent.name}`, `/generators?name=${gone.generator.name}`] as const
  for (const path of lists) {
    expect((await ask(broker, `GET ${path}`)).json, path).toEqual([])
    expect((await ask(broker, `GET ${path}&include_deleted=true`)).json, path).toMatchObject([{ deleted_at: expect.any(String) as string }])
  }
})

test('a resource has an ETag, and an unchanged one returns 304', async () => {
  const stack = await makeStack()
  const { agent } = await createAgent(broker, { generators: [tenant] })
  const object = (await submit(stack.id, 'a: 1')).json as Row
  const search = `/agents/?name=${agent.name}&cluster_name=${agent.cluster_name}` as const
  for (const path of [`/stacks/${stack.id}`, `/agents/${agent.id}`, search, `/generators/${tenant.generator.id}`] as const) {
    const tag = (await ask(broker, `GET ${path}`)).header('etag')
    expect(tag).toMatch(/^W\/"\d{4}-.*Z"$/)
    const known = await ask(broker, `GET ${path}`, { headers: { 'if-none-match': `"x", ${tag}` } })
    expect([known.status, known.text]).toEqual([304, ''])
    expect((await ask(broker, `GET ${path}`, { headers: { 'if-none-match': '"x"' } })).status).toBe(200)
  }
  const revision = await ask(broker, `GET /deployment-objects/${object.id}`)
  expect(revision.header('etag')).toBe(`"${(revision.json as { yaml_checksum: string }).yaml_checksum}"`)
  expect(
    (await ask(broker, `GET /deployment-objects/${object.id}`, { headers: { 'if-none-match': revision.header('etag')! } })).status,
  ).toBe(304)
})

test.each(['agents', 'generators', 'stacks'])('%s: a change under an older tag is refused, and of two at once one wins', async (kind) => {
  const id =
    kind === 'agents'
      ? (await createAgent(broker, { generators: [] })).agent.id
      : kind === 'stacks'
        ? (await makeStack()).id
        : (await createGenerator(broker)).generator.id
  const path = `/${kind}/${id}` as const
  const tag = (await ask(broker, `GET ${path}`)).header('etag')!
  const put = (name: string, match: string) => ask(broker, `PUT ${path}`, { body: { name: unique(name) }, headers: { 'if-match': match } })
  const both = await Promise.all([put('a', tag), put('b', tag)])
  expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 412])
  expect(both.find(({ status }) => status === 412)?.code).toBe('precondition_failed')
  const fresh = both.find(({ status }) => status === 200)!.header('etag')!
  expect(fresh).not.toBe(tag)
  expect([(await put('c', fresh)).status, (await put('d', '*')).status, (await put('e', '"x"')).status]).toEqual([200, 200, 412])
})
