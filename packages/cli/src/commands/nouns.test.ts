// Commands that need only a broker: resources, access, contexts, examination, completion, and hostile input.
// long: starts the program per case
import { readFile, stat, symlink } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { AuditLog } from '@brokkr/contract/audit/audit-log.ts'
import { Access, AdminPak } from '@brokkr/contract/auth/admin-pak.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import { RenderedTemplate, StackTemplate } from '@brokkr/contract/templates/template.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { checkArguments } from '../arguments.ts'
import { type CommandLine, openCommandLine } from '../test-parts/run-cli.ts'

let broker: TestBroker
let cli: CommandLine
beforeAll(async () => {
  broker = await startTestBroker({
    env: { BROKKR__BROKER__WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8' },
  })
  cli = await openCommandLine(broker)
  return () => broker.kill()
}, 600_000)

test('agents are created, labelled, paused, resumed, drained, rotated and removed by name', async () => {
  await cli.ok('generators', 'create', 'shop', '--out', join(cli.folder, 'shop.pak'))
  expect((await stat(join(cli.folder, 'shop.pak'))).mode & 0o777).toBe(0o600)
  const created = await cli.run(['agents', 'create', 'fra-1', '-l', 'env:prod', '--generator', 'shop'])
  expect(created).toMatchObject({ code: 0, stdout: expect.stringMatching(/^brokkr_BR\w+\n$/) as unknown })
  expect(await cli.ok('agents', 'label', 'fra-1', 'env:prod', 'region:eu')).toBe('agent fra-1: env:prod, region:eu\n')
  expect(await cli.ok('agents', 'label', 'fra-1', 'region:eu', '--remove')).toBe('agent fra-1: env:prod\n')
  expect(await cli.ok('agents', 'pause', 'fra-1', '--dry-run')).toBe('would pause agent fra-1\n')
  expect(await cli.ok('agents', 'pause', 'fra-1')).toBe('agent fra-1 is INACTIVE\n')
  expect(await cli.ok('agents', 'resume', 'fra-1')).toBe('agent fra-1 is ACTIVE\n')
  expect(await cli.ok('agents', 'drain', 'fra-1')).toBe('agent fra-1 is INACTIVE\n')
  expect(await cli.ok('generators', 'register', 'shop', 'fra-1')).toContain('is registered')
  expect(await cli.ok('generators', 'deregister', 'shop', 'fra-1', '--yes')).toContain('no longer registered')
  expect(await cli.fails(5, 'agents', 'rotate', 'fra-1')).toContain('--yes')
  expect((await cli.run(['agents', 'rotate', 'fra-1', '--yes'])).stdout).toMatch(/^brokkr_BR/)
  await cli.json(endpoints.listAgents.response, 'get', 'agents')
  await cli.ok('agents', 'remove', 'fra-1', '--yes')
  expect(await cli.fails(3, 'agents', 'remove', 'fra-1', '--yes')).toContain('agent not found')
  const invite = await cli.run(['agents', 'invite', 'edge-17', '-l', 'env:prod', '--generator', 'shop'])
  expect(invite.stdout).toMatch(
    /^curl -fsS -H 'Authorization: Join jt_\S+' http:\/\/127\.0\.0\.1:\d+\/api\/v1\/join\/manifest \| kubectl apply -f -\n$/,
  )
  const [open] = await cli.json(endpoints.listAgentInvites.response, 'access', 'invites')
  expect(await cli.ok('access', 'revoke-invite', open!.id)).toContain('revoked')
}, 600_000)

test('generators, templates and admin PAKs are managed by name; secrets are shown once', async () => {
  const rotated = await cli.run(['generators', 'create', 'ci', '--description', 'pipeline'])
  expect(rotated).toMatchObject({ code: 0, stderr: expect.stringContaining('shown once') as unknown })
  expect((await cli.run(['generators', 'rotate', 'ci', '--yes'])).stdout).toMatch(/^brokkr_BR/)
  expect(await cli.ok('generators', 'describe', 'ci')).toContain('pipeline')
  expect(await cli.ok('generators', 'remove', 'ci', '--dry-run')).toBe('would delete generator ci and 0 stacks\n')
  await cli.ok('generators', 'remove', 'ci', '--yes')

  const file = await cli.write('web.tera', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ name }}}\n')
  const schema = await cli.write('web.schema.json', '{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}')
  expect(await cli.ok('templates', 'lint', '-f', file, '--schema', schema)).toBe(`${file}: syntax and schema are valid\n`)
  const linted = await cli.json(endpoints.lintTemplate.response, 'templates', 'lint', '-f', file, '--set', 'name=shop')
  expect(linted.yaml_content).toContain('metadata: {name: shop}')
  const broken = await cli.write('broken.tera', 'a: {{ name\n')
  expect(await cli.fails(1, 'templates', 'lint', '-f', broken)).toContain('invalid_template_syntax')
  expect(await cli.fails(1, 'templates', 'lint', '-f', file, '--schema', schema, '--set', 'name=3')).toContain('invalid_parameters')
  const template = await cli.json(StackTemplate, 'templates', 'publish', 'web', '-f', file, '--schema', schema)
  expect(template.version).toBe(1)
  expect(await cli.ok('templates', 'publish', 'web', '-f', file, '--schema', schema)).toBe('template web:2 published\n')
  expect(await cli.ok('templates', 'versions', 'web', '-o', 'name')).toBe('web:2\nweb:1\n')
  await cli.ok('stacks', 'create', 'from-template')
  expect(await cli.ok('templates', 'apply', 'web:1', '--stack', 'from-template', '--set', 'name=shop')).toBe(
    'from-template 1 from template web:1\n',
  )
  expect(await cli.fails(1, 'templates', 'apply', 'web', '--stack', 'from-template')).toContain('invalid_parameters')
  const render = ['templates', 'render', 'web:1', '--stack', 'from-template', '--set', 'name=shop'] as const
  expect(await cli.ok(...render)).toContain('metadata: {name: shop}\n')
  expect((await cli.json(RenderedTemplate, ...render)).warnings).toEqual([])
  expect(await cli.ok('templates', 'describe', 'web')).toContain('{{ name }}')
  await cli.ok('templates', 'delete', 'web:1', '--yes')
  expect(await cli.ok('templates', 'list', '-o', 'name')).toBe('web:2\n')

  const pak = join(cli.folder, 'ops.pak')
  await cli.ok('access', 'create', 'ops', '--scope', 'read,deploy', '--valid', '24h', '--out', pak)
  expect(await cli.fails(2, 'access', 'create', 'ops2', '--scope', 'fly')).toContain('verbs: read')
  expect(await cli.fails(2, 'access', 'create', 'ops2', '--out', pak)).toContain('exists already')
  const paks = await cli.json(z.array(AdminPak), 'access', 'list')
  expect(paks.find(({ name }) => name === 'ops')?.scope).toEqual(['read', 'deploy'])
  expect(await cli.ok('access', 'whoami', '--pak-file', pak)).toBe('admin\n')
  expect(await cli.ok('access', 'can-i', 'from-template', 'deploy', '--pak-file', pak)).toBe('yes: this PAK may deploy on from-template\n')
  expect(await cli.run(['access', 'can-i', 'approve', '--pak-file', pak])).toEqual({
    code: 4,
    stdout: 'no: the scope of this PAK lacks the verb that this operation requires (scope_denied)\n',
    stderr: '',
  })
  expect(await cli.json(Access, 'access', 'can-i', 'from-template', 'admin')).toEqual({
    verb: 'admin',
    allowed: true,
    code: null,
    reason: null,
  })
  expect(await cli.fails(2, 'access', 'can-i', 'from-template', 'aprove')).toContain('did you mean approve?')
  expect((await cli.run(['access', 'rotate', 'ops', '--yes'])).stdout).toMatch(/^brokkr_BR/)
  await cli.ok('access', 'revoke', 'ops', '--yes')
  expect(await cli.fails(4, 'get', 'stacks', '--pak-file', pak)).toContain('unauthorized')
  const entries = await cli.json(z.array(AuditLog), 'audit', 'list', '--action', 'pak.*')
  expect(entries.length).toBeGreaterThanOrEqual(3)
  expect(await cli.ok('audit', 'show', entries[0]!.id)).toContain(`id: ${JSON.stringify(entries[0]!.id)}`)
  const exported = (await cli.ok('audit', 'export', '--action', 'pak.*')).trimEnd().split('\n')
  expect(exported.map((line) => AuditLog.safeParse(JSON.parse(line)).success)).not.toContain(false)
}, 600_000)

test('webhooks are created, tested, replayed and deleted; work orders created, retried and cancelled', async () => {
  const received: string[] = []
  const server = createServer((request, response) => {
    request.on('data', (chunk: Buffer) => received.push(chunk.toString()))
    request.on('end', () => response.end('ok'))
  })
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  await cli.ok('webhooks', 'create', 'alerts', '--url', url, '--event', 'workorder.*', '--out', join(cli.folder, 'alerts.secret'))
  expect(await cli.ok('webhooks', 'test', 'alerts')).toContain('answered 200')
  expect(received.length).toBe(1)
  expect(await cli.ok('webhooks', 'pause', 'alerts')).toBe('webhook alerts is paused\n')
  expect(await cli.ok('webhooks', 'resume', 'alerts')).toBe('webhook alerts is enabled\n')

  const agent = await broker.admin.createAgent({ body: { name: 'worker', cluster_name: 'worker', status: 'ACTIVE' } })
  const job = await cli.write('job.yaml', 'apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, namespace: default}\n')
  const created = await cli.json(
    endpoints.createWorkOrder.response,
    'work-orders',
    'create',
    '-f',
    job,
    '--type',
    'custom',
    '--agent',
    'worker',
  )
  expect(await cli.ok('work-orders', 'list')).toContain(created.id)
  expect(await cli.ok('work-orders', 'describe', created.id.slice(0, 13))).toMatch(/status +PENDING/)
  const worker = broker.clientOf(agent.initial_pak)
  const params = { id: created.id }
  const claimed = await worker.claimWorkOrder({ params, body: { agent_id: agent.agent.id } })
  await worker.appendWorkOrderOutput({ params, body: { attempt: claimed.attempt, offset: 0, text: 'one\n\u001b[31mtwo\n' } })
  expect(await cli.ok('work-orders', 'output', created.id)).toBe('one\n·[31mtwo\n')
  await worker.completeWorkOrder({ params, body: { success: false, message: 'no', retryable: false } })
  const again = await cli.run(['work-orders', 'retry', created.id, '--wait', '--timeout', '300ms'])
  expect(again).toMatchObject({ code: 7, stdout: expect.stringContaining(`repeats ${created.id}`) as unknown })
  const [open] = await cli.json(endpoints.listWorkOrders.response, 'get', 'work-orders')
  await cli.ok('work-orders', 'cancel', open!.id, '--yes')

  await expect
    .poll(() => cli.ok('webhooks', 'deliveries', 'alerts', '--status', 'success'), { timeout: 30_000 })
    .toContain('workorder.created')
  await cli.json(endpoints.listDeliveries.response, 'webhooks', 'deliveries', 'alerts')
  expect(await cli.ok('webhooks', 'replay', 'alerts', '--since', '1h')).toMatch(/^[1-9]\d* deliveries of alerts are sent again\n$/)
  expect((await cli.run(['webhooks', 'rotate', 'alerts'])).stderr).toContain('one day')
  expect(await cli.ok('describe', 'webhook', 'alerts')).toContain('workorder.*')
  await cli.ok('webhooks', 'delete', 'alerts', '--yes')
}, 600_000)

test('login saves a context with a 0600 PAK, context selects it, logout removes it', async () => {
  const other = await openCommandLine()
  const pak = await other.write('given.pak', broker.adminPak)
  expect(await other.fails(2, 'login', broker.url, '--pak-file', await other.write('bad.pak', 'hello'))).toContain('not a PAK')
  expect(await other.fails(2, 'login', 'http://brokkr.example.com', '--pak-file', pak)).toContain('unencrypted')
  expect(await other.ok('login', broker.url, '--name', 'here', '--pak-file', pak)).toContain('as admin')
  const stored = join(other.folder, 'config', 'brokkr', 'here.pak')
  expect((await stat(stored)).mode & 0o777).toBe(0o600)
  const piped = await other.run(['login', broker.url, '--name', 'there'], { stdin: broker.adminPak })
  expect(piped.code).toBe(0)
  expect(await other.ok('context', 'use', 'here')).toContain(broker.url)
  expect(await other.ok('context')).toMatch(/\* +here/)
  expect(await other.ok('context', 'list', '-o', 'name')).toBe('here\nthere\n')
  await other.ok('get', 'agents')
  expect(await other.run(['get', 'agents'], { env: { BROKKR_CONTEXT: 'hree' } })).toMatchObject({
    code: 3,
    stderr: expect.stringContaining('did you mean here?') as unknown,
  })
  await other.ok('logout', 'here')
  await expect(stat(stored)).rejects.toThrow('ENOENT')
  expect(await other.fails(2, 'get', 'agents')).toContain('no broker is configured')
}, 600_000)

test('doctor, version and support-bundle examine the installation without showing secrets', async () => {
  const found = await cli.run(['doctor', '-o', 'json'])
  const findings = JSON.parse(found.stdout) as { check: string; ok: boolean }[]
  expect(Object.fromEntries(findings.map(({ check, ok }) => [check, ok]))).toMatchObject({
    broker: true,
    database: true,
    clock: true,
    pak: true,
    feed: true,
    tasks: true,
  })
  const dead = await cli.run(['doctor'], { env: { BROKKR_BROKER_URL: 'http://127.0.0.1:1' } })
  expect(dead).toMatchObject({ code: 6, stdout: expect.stringMatching(/✖ broker[^]*cure/) as unknown })
  expect(await cli.ok('version')).toMatch(/^brokkr \d+\.\d+\.\d+ \(node [^)]+\)\nbroker \d+\.\d+\.\d+ at http/)
  expect(await cli.run(['version', '--client'], { env: { BROKKR_BROKER_URL: 'http://127.0.0.1:1' } })).toMatchObject({ code: 0 })
  const file = join(cli.folder, 'bundle.json.gz')
  expect(await cli.ok('support-bundle', '--out', file)).toMatch(/bundle\.json\.gz: \d+ KiB, \d+ values masked, 0 parts omitted/)
  expect((await stat(file)).mode & 0o777).toBe(0o600)
  const text = gunzipSync(await readFile(file)).toString()
  const bundle = JSON.parse(text) as Record<string, unknown>
  expect(Object.keys(bundle)).toEqual(
    expect.arrayContaining(['doctor', 'overview', 'config', 'tasks', 'fleet', 'stacks', 'audit', 'masked', 'omitted']),
  )
  for (const secret of [broker.adminPak, broker.encryptionKey]) expect(text).not.toContain(secret)
}, 600_000)

test('completion offers commands, options, choices and names of the broker', async () => {
  await broker.admin.createAgent({ body: { name: 'zrh-completes', cluster_name: 'zrh' } })
  const complete = async (...words: string[]) => (await cli.ok('__complete', '--', ...words)).trimEnd().split('\n')
  expect(await complete('sta')).toEqual(['status', 'stacks'])
  expect(await complete('webhooks', 'r')).toEqual(['replay', 'resume', 'rotate'])
  expect(await complete('get', 'stacks', '-o', 'y')).toEqual(['yaml'])
  expect(await complete('get', 'stacks', '--wa')).toEqual(['--watch'])
  // Names are left out if the broker does not answer within a second, which a loaded machine can exceed.
  const names = (...words: string[]) =>
    waitFor('names', async () => (await complete(...words)).find((name) => name !== ''), { limitMs: 300_000 })
  expect(await names('describe', 'agent', 'zrh')).toBe('zrh-completes')
  expect(await names('agents', 'pause', 'zrh')).toBe('zrh-completes')
  expect(await names('tree', 'shop@zrh')).toBe('shop@zrh-completes')
  for (const shell of ['bash', 'zsh', 'fish']) expect(await cli.ok('completion', shell)).toContain('__complete')
  expect(await cli.fails(2, 'completion', 'csh')).toContain('bash|zsh|fish')
  // Without a broker there are no names, and no error.
  const alone = await cli.run(['__complete', '--', 'agents', 'pause', ''], { env: { BROKKR_BROKER_URL: 'http://127.0.0.1:1' } })
  expect(alone).toEqual({ code: 0, stdout: '', stderr: '' })
}, 600_000)

test('hostile input is refused with what, where, why and next', async () => {
  expect(await cli.fails(2, 'describe', 'stack', 'shop\u001b[2J')).toMatch(/argument 3 contains a control character\n {2}where .*U\+001B/)
  expect(await cli.fails(2, 'describe', 'stack', 'x'.repeat(100_000))).toContain('longer than 65536 characters')
  // No shell passes so much; a program that starts the command line can.
  expect(() => checkArguments(['get', 'x'.repeat(10 * 1024 * 1024)])).toThrow('argument 2 is longer than 65536 characters')
  await symlink('/etc/passwd', join(cli.folder, 'link.yaml'))
  expect(await cli.fails(2, 'apply', '-f', cli.folder, '--stack', 's')).toContain('link_refused')
  const project = (text: string) => cli.write('brokkr.yaml', text)
  await project('stack: shop\nbroker: https://evil.example.com\n')
  const refused = await cli.fails(2, 'apply', '-f', '-', '--dry-run')
  for (const part of ['the project file sets broker', 'brokkr.yaml line 2', 'may name neither a broker nor a key', 'remove the line'])
    expect(refused).toContain(part)
  await project('stack: shop\npak_file: /etc/shadow\n')
  expect(await cli.fails(2, 'apply', '-f', '-')).toContain('the project file sets pak_file')
  await project('stakc: shop\n')
  expect(await cli.fails(2, 'apply', '-f', '-')).toContain('did you mean stack?')
  await project('stack: shop\n')
  const fine = await cli.run(['apply', '-f', '-', '--dry-run'], { stdin: 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n' })
  expect(fine).toMatchObject({ code: 0, stdout: expect.stringContaining('would create stack shop') as unknown })
  expect(await cli.fails(2, 'get', 'stacks', '--field', 'color=red')).toContain('--field name=VALUE')
  expect(await cli.fails(2, 'get', 'stacks', '-o', 'xml')).toContain('Allowed choices')
  expect(await cli.fails(8, 'get', 'stacks', '--broker', 'http://127.0.0.1:1')).toContain('cannot be reached')
}, 600_000)
