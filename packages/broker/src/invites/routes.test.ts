import { createHash, randomBytes } from 'node:crypto'
import { generatePak } from '@brokkr/contract/auth/pak.ts'
import type { AgentInvite } from '@brokkr/contract/invites/agent-invite.ts'
import { createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { type Asked, ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  // Refused tokens of one address are slowed down: where many are refused, each comes from its own.
  broker = await startTestBroker({ env: { BROKKR__SERVER__TRUSTED_PROXIES: '127.0.0.1' } })
  tenant = await createGenerator(broker)
  return () => broker.kill()
})

type Invite = AgentInvite & { token: string }
const invite = (body: Parameters<TestBroker['admin']['createAgentInvite']>[0]['body'] = {}): Promise<Invite> =>
  broker.admin.createAgentInvite({ body })
const kept = (id: string) => broker.admin.getAgentInvite({ params: { id } })
const byNumber = (a: number, b: number) => a - b
const newHash = () => createHash('sha256').update(randomBytes(16)).digest('hex')

let address = 0
const from = () => `10.9.${(address >> 8) & 255}.${address++ & 255}`
function join(token: string, body: object = {}, headers: Record<string, string> = {}): Promise<Asked> {
  const sent = {
    short_token: 'BRagentC',
    pak_hash: newHash(),
    name: unique('joined'),
    cluster_name: 'c',
    cluster_uid: 'u',
    agent_version: '1.2.3',
    k8s_version: 'v1.36.0',
    sent_at: new Date().toISOString(),
  }
  const head = { authorization: `Join ${token}`, 'x-forwarded-for': from(), ...headers }
  return ask(broker, 'POST /join', { pak: null, body: { ...sent, ...body }, headers: head })
}
const agentOf = (answer: Asked) => (answer.json as { agent: { id: string; name: string; status: string; agent_version: string } }).agent
const deeds = async (action: string, id: string) =>
  (await broker.admin.listAuditLogs({ query: { action, resource_id: id } })).logs.map(({ details, ...row }) => ({ ...row, details }))

test('a token is shown once: afterwards there is its short part, and at rest its hash', async () => {
  const made = await invite({ name: 'edge-17', cluster_name: 'fra-2', labels: ['env:prod'], generator_ids: [tenant.generator.id] })
  expect(made.token).toMatch(/^jt_[1-9A-HJ-NP-Za-km-z]{6}_[1-9A-HJ-NP-Za-km-z]{32,33}$/)
  const { token, ...shown } = made
  expect(await kept(made.id)).toEqual(shown)
  expect((await broker.admin.listAgentInvites({})).find(({ id }) => id === made.id)).toEqual(shown)
  expect(shown).toMatchObject({ uses: 1, uses_left: 1, preset: 'standard', approve: false, revoked_at: null, agents: [] })
  const long = token.split('_')[2] ?? ''
  const [row] = await runSql<Record<string, unknown>>(broker.databaseUrl, 'select * from agent_invites where id = $1', [made.id])
  expect(row?.['token_hash']).toBe(createHash('sha256').update(long).digest('hex'))
  expect(JSON.stringify(row)).not.toContain(long)
  expect(JSON.stringify(await deeds('invite.created', made.id))).not.toContain(long)
  const lives = Date.parse(shown.expires_at) - Date.parse(shown.created_at)
  expect(lives).toBe(1_800_000)
})

test('joining creates an agent with the rights of the invite and spends one use', async () => {
  const label = unique('l')
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const { token, id } = await invite({ labels: [label], annotations: { tier: 'web' }, generator_ids: [tenant.generator.id] })
  const { pak, short, hash } = await generatePak()
  const answer = await join(token, { short_token: short, pak_hash: hash })
  const agent = agentOf(answer)
  expect([answer.status, agent.status, agent.agent_version]).toEqual([201, 'ACTIVE', '1.2.3'])
  const client = broker.clientOf(pak)
  const params = { id: agent.id }
  expect((await client.agentsListLabels({ params })).map((one) => one.label)).toEqual([label])
  expect((await client.agentsListAnnotations({ params })).map(({ key, value }) => [key, value])).toEqual([['tier', 'web']])
  const registered = (await client.listAgentRegistrations({ params })).map(({ generator_id }) => generator_id)
  expect([registered.length, registered.includes(tenant.generator.id)]).toEqual([2, true])
  expect((await client.getAssociatedStacks({ params })).map((one) => one.id)).toEqual([stack.id])
  expect(await kept(id)).toMatchObject({ uses_left: 0, agents: [agent.id] })
  expect(await deeds('invite.used', id)).toMatchObject([
    { actor_type: 'agent', actor_id: agent.id, details: { agent_id: agent.id, cluster_uid: 'u', k8s_version: 'v1.36.0' } },
  ])
  expect(await deeds('agent.created', agent.id)).toMatchObject([{ actor_id: agent.id, details: { invite_id: id, name: agent.name } }])
})

test('a repeated hash is the same join, and another hash is refused', async () => {
  const { token, id, short_token } = await invite()
  const pak_hash = newHash()
  const [first, again] = [await join(token, { pak_hash }), await join(token, { pak_hash })]
  expect([first.status, again.status, agentOf(again).id]).toEqual([201, 200, agentOf(first).id])
  const other = await join(token, {}, { 'user-agent': id })
  expect([other.status, other.text, other.header('www-authenticate')]).toEqual([401, '', 'Bearer'])
  expect((await kept(id)).agents).toEqual([agentOf(first).id])
  const told = await waitFor('the refusal in the audit', async () =>
    (await broker.admin.listAuditLogs({ query: { action: 'auth.failed' } })).logs.find((log) => log.user_agent === id),
  )
  expect(told.details).toMatchObject({ path: '/api/v1/join', reason: 'refused', short_token })
})

test('concurrent joins with one hash spend one use', async () => {
  for (let round = 0; round < 5; round += 1) {
    const { token, id } = await invite({ uses: 5 })
    const [pak_hash, name] = [newHash(), unique('twin')]
    const answers = await Promise.all([1, 2, 3].map(() => join(token, { pak_hash, name })))
    expect(answers.map(({ status }) => status).toSorted(byNumber)).toEqual([200, 200, 201])
    expect(new Set(answers.map((answer) => agentOf(answer).id)).size).toBe(1)
    expect((await kept(id)).uses_left).toBe(4)
  }
})

test('of 100 that join at the same time by a token of three uses three win', { timeout: 120_000 }, async () => {
  const { token, id } = await invite({ uses: 3 })
  // Whoever is told to come back comes back, as an agent does.
  const joined = async (): Promise<number> => {
    const body = { pak_hash: newHash(), name: unique('one-of-100') }
    for (;;) {
      const { status } = await join(token, body)
      if (status !== 503) return status
    }
  }
  const statuses = await Promise.all(Array.from({ length: 100 }, joined))
  expect(statuses.toSorted(byNumber)).toEqual([...Array<number>(3).fill(201), ...Array<number>(97).fill(401)])
  const after = await kept(id)
  expect([after.uses_left, after.agents.length, (await deeds('invite.used', id)).length]).toEqual([0, 3, 3])
})

const manifest = (token: string) =>
  ask(broker, 'GET /join/manifest', { pak: null, headers: { authorization: `Join ${token}`, 'x-forwarded-for': from() } })

test('an invite expires by database time or when revoked, and joined agents stay', async () => {
  const { token, id } = await invite({ uses: 2 })
  const agent = agentOf(await join(token))
  await runSql(broker.databaseUrl, `update agent_invites set expires_at = now() - interval '1 millisecond' where id = $1`, [id])
  expect([(await join(token)).status, (await manifest(token)).status]).toEqual([401, 401])
  await runSql(broker.databaseUrl, `update agent_invites set expires_at = now() + interval '1 hour' where id = $1`, [id])
  expect((await manifest(token)).code).toBe('agent_image_unset')
  await broker.admin.revokeAgentInvite({ params: { id } })
  await broker.admin.revokeAgentInvite({ params: { id } })
  expect([(await join(token)).status, (await manifest(token)).status]).toEqual([401, 401])
  expect(await kept(id)).toMatchObject({ uses_left: 1, agents: [agent.id], revoked_at: expect.any(String) })
  expect((await deeds('invite.revoked', id)).length).toBe(1)
  expect((await broker.admin.getAgent({ params: { id: agent.id } })).status).toBe('ACTIVE')
  const missing = '00000000-0000-4000-8000-000000000001'
  for (const method of ['GET', 'DELETE']) expect((await ask(broker, `${method} /agent-invites/${missing}`)).code).toBe('not_found')
})

test.each([
  ['61 s behind', -61, 422],
  ['61 s ahead', 61, 422],
  ['55 s behind', -55, 201],
  ['55 s ahead', 55, 201],
])('a clock that is %s', async (_, seconds, status) => {
  const { token, id } = await invite()
  const answer = await join(token, { sent_at: new Date(Date.now() + seconds * 1000).toISOString() })
  expect([answer.status, answer.code]).toEqual([status, status === 422 ? 'clock_skew' : null])
  expect((await kept(id)).uses_left).toBe(status === 422 ? 1 : 0)
})

test('a refused join spends no use of the invite', async () => {
  const { token, id } = await invite({ name_prefix: 'edge-', cluster_name: 'c', uses: 2 })
  expect((await join(token, { name: 'core-1' })).code).toBe('invalid_agent')
  expect((await join(token, { name: 'edge-1', cluster_name: 'd' })).code).toBe('invalid_agent')
  expect((await join(token, { name: null })).code).toBe('invalid_agent')
  const name = unique('edge-')
  await broker.admin.createAgent({ body: { name, cluster_name: 'c' } })
  const taken = await join(token, { name })
  expect([taken.status, taken.json]).toEqual([409, expect.objectContaining({ details: { constraint: 'unique_agent_cluster' } })])
  const known = await join(token, { name: unique('edge-'), pak_hash: createHash('sha256').update(tenant.pak.split('_')[2]!).digest('hex') })
  expect([known.status, known.json]).toEqual([409, expect.objectContaining({ details: { constraint: 'unique_agent_pak' } })])
  expect((await join(token, { short_token: 'x' })).code).toBe('validation_failed')
  expect((await join(token, { pak_hash: 'x' })).code).toBe('validation_failed')
  expect((await join(token, { cluster_uid: 'u'.repeat(70_000) })).code).toBe('payload_too_large')
  expect(await kept(id)).toMatchObject({ uses_left: 2, agents: [] })
})

test('a generator deleted after the invite does not prevent joining', async () => {
  const gone = await createGenerator(broker)
  const { token } = await invite({ generator_ids: [tenant.generator.id, gone.generator.id] })
  await broker.admin.deleteGenerator({ params: { id: gone.generator.id } })
  const { id } = agentOf(await join(token))
  const registered = await broker.admin.listAgentRegistrations({ params: { id: id } })
  expect(registered.map(({ generator_id }) => generator_id)).not.toContain(gone.generator.id)
  expect(registered.length).toBe(2)
})

test.each<[string, object, string]>([
  ['a name and a prefix', { name: 'a', name_prefix: 'b' }, 'invalid_agent'],
  ['one name for two', { name: 'a', uses: 2 }, 'invalid_agent'],
  ['an empty name', { name: ' ' }, 'invalid_agent'],
  ['a prefix without room for a name', { name_prefix: 'x'.repeat(201) }, 'invalid_agent'],
  ['a generator that does not exist', { generator_ids: ['00000000-0000-4000-8000-000000000001'] }, 'invalid_generator_id'],
  ['a label with a space', { labels: ['a b'] }, 'invalid_label'],
  ['an empty value', { annotations: { k: '' } }, 'invalid_annotation'],
  ['too many annotations', { annotations: Object.fromEntries(Array.from({ length: 257 }, (_, n) => [`k${n}`, 'v'])) }, 'limit_exceeded'],
  ['no use', { uses: 0 }, 'validation_failed'],
  ['more uses than a thousand', { uses: 1001 }, 'validation_failed'],
  ['more than a day', { expires_in_seconds: 86_401 }, 'validation_failed'],
  ['a waiting room, which is not there yet', { approve: true }, 'invalid_request_body'],
  ['a preset nobody knows', { preset: 'root' }, 'invalid_request_body'],
  ['namespaces that are not named', { preset: 'namespaced' }, 'validation_failed'],
  ['namespaces of the whole cluster', { namespaces: ['shop'] }, 'validation_failed'],
  ['a namespace with capitals', { preset: 'namespaced', namespaces: ['Shop'] }, 'validation_failed'],
])('an invite with %s is refused', async (_, body, code) => {
  expect((await ask(broker, 'POST /agent-invites', { body })).code).toBe(code)
})
