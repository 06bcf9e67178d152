// The permission table, called over HTTP: every endpoint as everybody, against expectations typed out by hand.
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { errorStatus } from '@brokkr/contract/errors.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { absent, call, callOf, joinToken, paks, present, startTestServer, type TestServer } from '../http/server/server.fixture.ts'
import { aboutMissing, type CallerName, callers, type Expected, permissions, verbs } from './permissions.fixture.ts'
import { toVerb } from './permit-tables.ts'

const names = Object.keys(endpoints) as EndpointName[]
let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())

const cases = (table: Record<EndpointName, readonly Expected[] | null>) =>
  names.flatMap((name) =>
    (table[name] ?? []).map((expected, index): [EndpointName, CallerName, Expected] => [name, callers[index] ?? 'admin', expected]),
  )

/** What the call led to: the answer, the handlers it reached, the denials it wrote. */
async function outcome(name: EndpointName, caller: CallerName, about: typeof present) {
  const before = { reached: server.reached.length, denied: server.denied.length }
  const answer = await call(server, name, { pak: paks[caller], about })
  const reached = server.reached.slice(before.reached).map((entry) => entry.name)
  const denied = server.denied.slice(before.denied).map((entry) => entry.code)
  // 401 says nothing.
  const code = answer.status < 400 ? 'ok' : answer.text === '' ? 'unauthorized' : answer.json?.code
  return { status: answer.status, code, reached, denied }
}

function wanted(name: EndpointName, expected: Expected) {
  if (expected === 'ok') return { status: endpoints[name].success, code: expected, reached: [name], denied: [] }
  const status = errorStatus[expected]
  return { status, code: expected, reached: [], denied: status === 403 ? [expected] : [] }
}

test.each(cases(permissions))('%s as %s: %s', async (name, caller, expected) => {
  expect(await outcome(name, caller, present)).toEqual(wanted(name, expected))
})

test.each(cases(aboutMissing))('%s about a missing thing as %s: %s', async (name, caller, expected) => {
  expect(await outcome(name, caller, absent)).toEqual(wanted(name, expected))
})

test.each(names)('%s without a credential returns an empty 401', async (name) => {
  const before = server.reached.length
  const answer = await call(server, name, { pak: null })
  expect([answer.status, answer.text, answer.headers.get('www-authenticate'), server.reached.length]).toEqual([401, '', 'Bearer', before])
})

test.each(names)('%s with a join token returns an empty 401 unless it is the join endpoint', async (name) => {
  const before = server.reached.length
  const answer = await call(server, name, { pak: joinToken })
  const { credential }: Endpoint = endpoints[name]
  const isJoining = credential === 'join'
  expect([answer.status, server.reached.length - before]).toEqual(isJoining ? [endpoints[name].success, 1] : [401, 0])
  if (!isJoining) expect([answer.text, server.failures.at(-1)?.reason]).toEqual(['', credential === 'link' ? 'refused' : 'malformed'])
})

test.each([
  ['unknown', `Join jt_other_${'x'.repeat(24)}`, 'refused', 'other'],
  ['a bare one', joinToken, 'malformed', null],
  ['under another word', `Bearer ${joinToken}`, 'malformed', null],
  ['a key in its place', `Join ${paks.admin}`, 'malformed', null],
  ['a letter that base58 lacks', `Join jt_l0_${'x'.repeat(24)}`, 'malformed', null],
  ['none', '', 'malformed', null],
])('a join token that is %s opens nothing', async (_, authorization, reason, shortToken) => {
  const answer = await call(server, 'join', { pak: null, headers: { authorization } })
  expect([answer.status, answer.text, answer.headers.get('www-authenticate')]).toEqual([401, '', 'Bearer'])
  expect(server.failures.at(-1)).toMatchObject({ reason, shortToken, path: '/api/v1/join' })
})

test('the Join scheme is accepted in any case and with any number of spaces', async () => {
  expect((await call(server, 'join', { pak: null, headers: { authorization: `joiN   ${joinToken} ` } })).status).toBe(201)
})

test('the verb of every endpoint is the one on the list', () => {
  expect(Object.fromEntries(names.map((name) => [name, toVerb(endpoints[name])]))).toEqual(verbs)
})

test.each(names)('[X7] %s with an admin PAK of scope read and deploy follows the permission table', async (name) => {
  const { status, json } = await call(server, name, { pak: paks.scoped })
  const isInScope = verbs[name] === 'read' || verbs[name] === 'deploy'
  const inScope = isInScope ? { status: endpoints[name].success } : { status: 403, code: 'scope_denied', details: { verb: verbs[name] } }
  const code = permissions[name][0]
  const expected = code === 'ok' ? inScope : code === 'unauthorized' ? { status: 401 } : { status: 403, code }
  expect({ status, code: json?.code, details: json?.details }).toMatchObject(expected)
})

test.each(names.filter((name) => permissions[name][2] === 'ok'))(
  '%s as an inactive generator: reads work, changes do not',
  async (name) => {
    const { status, json } = await call(server, name, { pak: paks.inactive })
    const expected = verbs[name] === 'read' ? { status: endpoints[name].success } : { status: 403, code: 'generator_inactive' }
    expect({ status, code: json?.code }).toMatchObject(expected)
  },
)

test('a denied call is refused before its body is read', async () => {
  const answer = await call(server, 'createAgent', { pak: paks.owner, body: '{"' })
  expect(answer.json?.code).toBe('admin_required')
})

test('an id that is no uuid is 403 for a foreign agent and 400 for an admin', async () => {
  const path = '/api/v1/agents/not-a-uuid'
  expect((await call(server, 'getAgent', { pak: paks.foreignAgent, path })).json?.code).toBe('agent_pak_mismatch')
  expect((await call(server, 'getAgent', { pak: paks.admin, path })).json?.code).toBe('invalid_path_parameter')
})

test('an agent is itself however its id is written', async () => {
  const answer = await call(server, 'getAgent', { pak: paks.itself, path: `/api/v1/agents/${present.agent.toUpperCase()}` })
  expect([answer.status, server.reached.at(-1)?.request.params]).toEqual([200, { id: present.agent }])
})

test('a denial is audited with caller, endpoint and address', async () => {
  await call(server, 'getStack', { pak: paks.foreignGenerator, headers: { 'x-request-id': 'r-1', 'user-agent': 'probe/1' } })
  expect(server.denied.at(-1)).toMatchObject({
    endpoint: 'getStack',
    code: 'stack_not_owned',
    requestId: 'r-1',
    userAgent: 'probe/1',
    clientAddress: '127.0.0.1',
    principal: { kind: 'generator', name: 'BRgother' },
  })
})

test('labels of a deleted stack are readable for admins and agents that remove it', async () => {
  const deleted = await startTestServer({ lookups: { stack: async () => ({ generatorId: present.generator, isDeleted: true }) } })
  try {
    const statusOf = async (name: EndpointName, pak: string) => (await call(deleted, name, { pak })).status
    expect(
      await Promise.all([paks.admin, paks.itself, paks.owner, paks.foreignAgent].map((pak) => statusOf('stacksListLabels', pak))),
    ).toEqual([200, 200, 404, 403])
    expect(await Promise.all([paks.admin, paks.itself, paks.owner].map((pak) => statusOf('getStack', pak)))).toEqual([404, 404, 404])
  } finally {
    await deleted.close()
  }
})

test.each(names)('[X7] %s with an expired PAK or a PAK in the URL returns 401', async (name) => {
  const before = server.reached.length
  expect((await call(server, name, { pak: paks.expired })).status).toBe(401)
  const { path } = callOf(name)
  for (const placed of [
    `${path}${path.includes('?') ? '&' : '?'}pak=${paks.admin}`,
    `${path}${path.includes('?') ? '&' : '?'}${paks.admin}`,
  ]) {
    expect((await call(server, name, { pak: null, path: placed })).status).toBe(401)
    expect(server.failures.at(-1)).toMatchObject({ reason: 'credential_in_url', path: path.split('?')[0] })
  }
  expect(server.reached.length).toBe(before)
})
