// A canary goes through every way into the broker that may hold a secret, and is then looked for in everything the broker leaves
// behind. The search first finds what was planted in each of these places, so that a place it cannot read is no proof.
import { randomBytes, randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { generatePak } from '@brokkr/contract/auth/pak.ts'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { logLine, type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { type PrivatePostgres, privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { dumpOf, filesBelow, formsOf, placesWith } from './search-secret.ts'

const canary = `S3CR3T-${randomUUID()}`
const planted = `PLANTED-${randomUUID()}`
const encryptionKey = randomBytes(32).toString('hex')
/** Everything that was ever a secret here. */
const secrets: string[] = [canary, encryptionKey]
/** Answers to calls that were refused, and to readers who must not see it: heads and bodies. */
const answers: [string, string][] = []

let server: PrivatePostgres
let databaseUrl: string
let broker: ProgramProcess
let url: string
let adminPak: string
beforeAll(async () => {
  server = await privatePostgres({
    settings: { log_statement: 'all', log_parameter_max_length: '-1', log_parameter_max_length_on_error: '-1' },
  })
  databaseUrl = (await server.database()).url
  const port = await freePort()
  url = `http://127.0.0.1:${port}`
  // The log names the file of the first key: its folder carries what the search has to find there.
  const keyFile = join(dirname(server.dataDir), planted, 'key.txt')
  mkdirSync(dirname(keyFile), { mode: 0o700 })
  broker = await startProgram({
    name: 'broker',
    main: 'packages/broker/src/main.ts',
    env: {
      DATABASE_URL: databaseUrl,
      BROKKR__SERVER__PORT: String(port),
      BROKKR__BROKER__ADMIN_PAK_FILE: keyFile,
      BROKKR__BROKER__ENCRYPTION_KEY: encryptionKey,
      BROKKR__BROKER__AUDIT_FLUSH_MS: '50',
      BROKKR__BROKER__AGENT_IMAGE: 'registry.example.com/brokkr-agent',
      BROKKR__BROKER__WEBHOOK_ALLOWED_CIDRS: '127.0.0.1',
      BROKKR__LOG__LEVEL: 'trace',
    },
  })
  await logLine(broker, 'broker ready')
  adminPak = String([...filesBelow(dirname(keyFile))][0]?.[1] ?? '').trim()
  expect(adminPak).toMatch(/^brokkr_BR/)
  return async () => {
    await broker.kill()
    await server.stop()
  }
})

interface Call {
  readonly pak?: string
  readonly body?: unknown
  readonly headers?: Record<string, string>
  /** The answer is no place to look at: it goes to whoever may see it. */
  readonly isShown?: boolean
}
async function call(method: string, path: string, { pak = adminPak, body, headers = {}, isShown = false }: Call = {}) {
  const isText = typeof body === 'string'
  const type = body === undefined ? {} : { 'content-type': isText ? 'application/yaml' : 'application/json' }
  const response = await fetch(`${url}/api/v1${path}`, {
    method,
    headers: { ...(pak === '' ? {} : { authorization: `Bearer ${pak}` }), ...type, ...headers },
    ...(body === undefined ? {} : { body: isText ? body : JSON.stringify(body) }),
  })
  const text = await response.text()
  if (!isShown || response.status >= 400)
    answers.push([
      `answer ${response.status} of ${method} ${path.replaceAll(canary, '…')}`,
      `${text}\n${JSON.stringify([...response.headers])}`,
    ])
  return {
    status: response.status,
    json: (text.startsWith('{') ? JSON.parse(text) : {}) as Record<string, string>,
    headers: response.headers,
  }
}
/** Made for somebody who reads it once; from then on nobody else may find it. */
const made = async (path: string, body: unknown, field: string): Promise<{ pak: string; json: Record<string, unknown> }> => {
  const { json, status } = await call('POST', path, { body, isShown: true })
  expect(status).toBeLessThan(300)
  const pak = String(json[field])
  secrets.push(pak.slice(pak.lastIndexOf('_') + 1))
  return { pak, json }
}

const secretYaml = (value: string) =>
  `apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: "${value}"}\ndata: {coded: "${Buffer.from(value).toString('base64')}"}\n`

/** Every way a secret comes in. Whoever adds one adds it here. */
async function sendEverywhere(): Promise<void> {
  secrets.push(adminPak.split('_')[2] ?? '')
  const generator = await made('/generators', { name: 'g' }, 'pak')
  const generatorId = (generator.json['generator'] as { id: string }).id
  const agent = await made('/agents', { name: 'a', cluster_name: 'c', generator_ids: [generatorId] }, 'initial_pak')
  const agentId = (agent.json['agent'] as { id: string }).id
  const { json: stack } = await call('POST', '/stacks', { body: { name: 's', generator_id: generatorId }, isShown: true })
  const objects = `/stacks/${stack['id']}/deployment-objects`

  // Manifests: taken, previewed, repeated, rolled back, refused.
  const first = await call('POST', objects, { body: { yaml_content: secretYaml(canary) }, isShown: true })
  await call('POST', objects, { body: secretYaml(canary), isShown: true, headers: { 'idempotency-key': 'one' } })
  const replayed = await call('POST', objects, { body: secretYaml(canary), isShown: true, headers: { 'idempotency-key': 'one' } })
  expect(replayed.headers.get('idempotency-replayed')).toBe('true')
  await call('POST', `${objects}?dry_run=true`, { body: secretYaml(canary) })
  await call('POST', `/stacks/${stack['id']}/rollback`, { body: { deployment_object_id: first.json['id'] }, isShown: true })
  for (const body of [
    `a: "${canary}`,
    { yaml_content: `a: [${canary}` },
    { yaml_content: `x: !foreign ${canary}` },
    { yaml_content: { a: canary } },
  ])
    expect((await call('POST', objects, { body })).status).toBe(400)
  expect(
    (await call('POST', objects, { body: `{"yaml_content": "${canary}`, headers: { 'content-type': 'application/json' } })).status,
  ).toBe(400)
  expect((await call('POST', objects, { pak: agent.pak, body: { yaml_content: canary } })).status).toBe(403)
  expect((await call('POST', objects, { pak: '', body: { yaml_content: canary } })).status).toBe(401)
  expect((await call('POST', `${objects}?expected_sequence_id=77`, { body: { yaml_content: secretYaml(canary) } })).status).toBe(409)
  const aliases = `a: &a "${canary}"\nb: [${'*a,'.repeat(150)}]\n`
  expect((await call('POST', objects, { body: aliases })).status).toBe(400)

  // Telemetry: log lines and messages of events, stored and refused.
  await call('POST', `/agents/${agentId}/targets`, { body: { agent_id: agentId, stack_id: stack['id'] }, isShown: true })
  const sender = { agent_id: agentId, stack_id: stack['id'] }
  const line = { ...sender, namespace: 'n', pod: 'p', container: 'c', ts: '2026-01-02T03:04:05Z', line: canary }
  const involved_object = { api_version: 'v1', kind: 'Pod', name: 'p' }
  const event = { ...sender, observed_at: line.ts, reason: 'r', message: canary, event_type: 'Normal', involved_object }
  const telemetry = { k8s_events: [event], pod_log_lines: [line] }
  expect((await call('POST', `/agents/${agentId}/telemetry`, { pak: agent.pak, body: telemetry })).status).toBe(202)
  const wrong = { pod_log_lines: [{ ...line, pod: [canary] }] }
  expect((await call('POST', `/agents/${agentId}/telemetry`, { pak: agent.pak, body: wrong })).status).toBe(422)

  // Plans: content, results of agents, refused.
  const plans = `/stacks/${stack['id']}/plans`
  const plan = await call('POST', plans, { body: { yaml_content: secretYaml(canary) } })
  expect(plan.status).toBe(201)
  expect((await call('POST', plans, { body: { yaml_content: `a: [${canary}` } })).status).toBe(400)
  const summary = { create: 0, update: 1, delete: 0, unchanged: 0, denied: 0, unchecked: 0 }
  const fields = [{ path: '/data/v', before: canary, after: canary }]
  const change = { group: '', kind: 'ConfigMap', namespace: 'n', name: 'c', change: 'update', fields, guard: null, message: canary }
  const result = { state: 'answered', reason: null, summary, changes: [change] }
  const results = `/plans/${plan.json['id']}/results`
  expect((await call('POST', results, { pak: agent.pak, body: result })).status).toBe(204)
  expect((await call('POST', results, { pak: agent.pak, body: { ...result, changes: [canary] } })).status).toBe(422)

  // Readers who may not see Secret values.
  const reader = await made('/admin/paks', { name: 'reader', readonly: true }, 'pak')
  for (const path of [objects, `/deployment-objects/${first.json['id']}`])
    expect((await call('GET', path, { pak: reader.pak })).status).toBe(200)

  // Keys: made, replaced, sent where they open nothing.
  await made(`/generators/${generatorId}/rotate-pak`, {}, 'pak')
  await made(`/agents/${agentId}/rotate-pak`, {}, 'pak')
  const own = await generatePak()
  secrets.push(own.pak.split('_')[2] ?? '')
  await call('POST', `/agents/${agentId}/rotate-pak`, { body: { short_token: own.short, pak_hash: own.hash } })
  const named = await made('/admin/paks', { name: 'k' }, 'pak')
  await made(`/admin/paks/${String(named.json['id'])}/rotate`, undefined, 'pak')
  const stranger = await generatePak()
  secrets.push(stranger.pak.split('_')[2] ?? '')
  expect((await call('GET', '/stacks', { pak: stranger.pak })).status).toBe(401)
  expect((await call('GET', `/stacks?key=${stranger.pak}`)).status).toBe(200)
  expect((await call('GET', `/stacks?key=${stranger.pak}`, { pak: '' })).status).toBe(401)
  expect((await call('GET', `/deployment-objects/${canary}`)).status).toBe(400)
  expect((await call('POST', '/auth/pak', { headers: { 'idempotency-key': 'ü'.repeat(3) } }).catch(() => ({ status: 422 }))).status).toBe(
    422,
  )

  // Join tokens: made, used, used up, revoked, sent where they open nothing. A manifest shows its own to whoever has it.
  const invite = await made('/agent-invites', { uses: 2 }, 'token')
  const joining = async (token: string, isShown = true) => {
    const { pak, short, hash } = await generatePak()
    secrets.push(pak.split('_')[2] ?? '')
    const facts = { cluster_uid: 'u', agent_version: '1', k8s_version: 'v1', sent_at: new Date().toISOString() }
    const body = { short_token: short, pak_hash: hash, name: `joined-${short}`, cluster_name: 'c', ...facts }
    return (await call('POST', '/join', { pak: '', body, isShown, headers: { authorization: `Join ${token}` } })).status
  }
  const shown = await call('GET', '/join/manifest', { pak: '', isShown: true, headers: { authorization: `Join ${invite.pak}` } })
  expect([shown.status, await joining(invite.pak), await joining(invite.pak), await joining(invite.pak, false)]).toEqual([
    200, 201, 201, 401,
  ])
  const revoked = await made('/agent-invites', { name: 'edge' }, 'token')
  await call('DELETE', `/agent-invites/${String(revoked.json['id'])}`)
  expect(await joining(revoked.pak, false)).toBe(401)
  for (const path of ['/agent-invites', `/agent-invites/${String(invite.json['id'])}`]) await call('GET', path)
  expect((await call('GET', '/stacks', { pak: '', headers: { authorization: `Join ${invite.pak}` } })).status).toBe(401)
  expect((await call('GET', `/stacks?token=${invite.pak}`, { pak: '' })).status).toBe(401)
  await sendToWebhooks({ agentId, reader: reader.pak })

  // A session's token stands in a cookie.
  const session = await call('POST', '/auth/session', { body: {}, isShown: true })
  const cookie = (session.headers.get('set-cookie') ?? '').split(';')[0] ?? ''
  expect(cookie).toContain('=')
  secrets.push(cookie.split('=')[1] ?? '')
  const page = { cookie, origin: url, 'x-brokkr-console': '1' }
  for (const path of [objects, `/deployment-objects/${first.json['id']}`])
    expect((await call('GET', path, { pak: '', headers: page })).status).toBe(200)
  await call('POST', objects, {
    pak: '',
    headers: { ...page, origin: 'http://foreign.example', 'content-type': 'application/json' },
    body: { yaml_content: canary },
  })
}

/** Addresses, credentials and secrets of webhooks: taken, changed, refused, tried in vain, and given to the agent that has to send. */
async function sendToWebhooks({ agentId, reader }: { agentId: string; reader: string }): Promise<void> {
  const nobody = `http://127.0.0.1:${await freePort()}/${canary}`
  const hook = (more: object) => ({
    name: 'w',
    url: nobody,
    auth_header: `Bearer ${canary}`,
    event_types: ['generator.none', 'stack.created'],
    ...more,
  })
  const ours = await made('/webhooks', hook({}), 'signing_secret')
  await made('/webhooks', hook({ target_labels: ['edge'] }), 'signing_secret')
  for (const more of [
    { url: `ftp://${canary}` },
    { url: `https://u:${canary}@example.com` },
    { auth_header: `${canary}\n` },
    { validate: canary },
  ])
    expect((await call('POST', '/webhooks', { body: hook(more) })).status).toBeGreaterThanOrEqual(400)
  const path = `/webhooks/${String(ours.json['id'])}`
  await call('PUT', path, { body: { url: `${nobody}/2`, auth_header: `Basic ${canary}` } })
  await made(`${path}/rotate-secret`, undefined, 'signing_secret')
  expect((await call('POST', `${path}/test`)).status).toBe(400)
  const { json: generator } = await call('POST', '/generators', { body: { name: 'told' }, isShown: true })
  const owner = (generator['generator'] as unknown as { id: string }).id
  await call('POST', `/agents/${agentId}/labels`, { body: { agent_id: agentId, label: 'edge' }, isShown: true })
  await call('POST', '/stacks', { body: { name: 'told', generator_id: owner }, isShown: true })
  await waitFor('a delivery in vain', async () => {
    const response = await fetch(`${url}/api/v1${path}/deliveries`, { headers: { authorization: `Bearer ${adminPak}` } })
    return (await response.text()).includes('"failed"')
  })
  await call('GET', `/agents/${agentId}/webhooks/pending`, { isShown: true })
  for (const read of ['/webhooks', path, `${path}/deliveries`, '/webhook-deliveries'])
    expect((await call('GET', read, { pak: reader })).status).toBe(200)
}

/** A request id goes into answers, audit rows and thereby into the database and its files. */
async function plant(): Promise<void> {
  await call('POST', '/generators', { body: { name: 'planted' }, isShown: true, headers: { 'x-request-id': planted } })
  await call('GET', `/stacks/${randomUUID()}`, { headers: { 'x-request-id': planted } })
}

/** A broker that does not start says why, and no more. */
async function failToStart(): Promise<string> {
  const DATABASE_URL = `postgres://user:${canary}@127.0.0.1:1/none`
  const wrong = [
    { DATABASE_URL, BROKKR__BROKER__ENCRYPTION_KEY: canary },
    { DATABASE_URL, BROKKR__BROKER__ENCRYPTION_KEY: encryptionKey, BROKKR__SERVER__HOST: planted },
  ]
  const said: string[] = []
  for (const env of wrong) {
    const failed = await startProgram({ name: 'failing', main: 'packages/broker/src/main.ts', env })
    expect((await failed.exited).code).toBe(2)
    said.push(failed.text())
  }
  return said.join('\n')
}

test('a secret of any request appears in no log, audit row, error, dump or file', async () => {
  await plant()
  await sendEverywhere()
  const audit = await waitFor('the audit rows of the refused calls', async () => {
    const text = await auditText()
    return text.includes('credential_in_url') && text.includes('auth.denied') && text
  })
  const failure = await failToStart()
  const dump = await dumpOf(databaseUrl)
  await checkpoint()
  const places = {
    log: [['log of the broker', broker.text()]] as [string, string][],
    'log of a start that fails': [['log of a start that fails', failure]] as [string, string][],
    audit: [['audit rows', audit]] as [string, string][],
    errors: answers,
    dump,
    'data directory': [...filesBelow(server.dataDir)],
    'log of PostgreSQL': [...filesBelow(dirname(server.logFile))].filter(([path]) => path === server.logFile),
  }
  for (const [name, place] of Object.entries(places)) expect(placesWith([planted], place), `nothing was planted in ${name}`).not.toEqual([])
  expect(formsOf(canary).length).toBeGreaterThan(4)
  for (const [name, place] of Object.entries(places)) expect(placesWith(secrets, place), `a secret in ${name}`).toEqual([])
  // After a clean stop as well: caches are written, the key file is gone.
  expect(await broker.stop()).toBe(0)
  expect(placesWith(secrets, [...filesBelow(server.dataDir), ...filesBelow(broker.folder), ...(await dumpOf(databaseUrl))])).toEqual([])
})

async function auditText(): Promise<string> {
  const response = await fetch(`${url}/api/v1/admin/audit-logs?limit=1000`, { headers: { authorization: `Bearer ${adminPak}` } })
  return response.text()
}

/** Everything that is still in memory goes to its file. */
async function checkpoint(): Promise<void> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  await client.query('checkpoint')
  await client.end()
}
