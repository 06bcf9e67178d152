// Every command of the table on a running system: standard output, standard error, exit code, and JSON against the contract. A command
// that has neither a step here nor a test that is named below fails the last test.
import { fork } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Agent } from '@brokkr/contract/agents/agent.ts'
import { Overview } from '@brokkr/contract/agents/fleet.ts'
import { AuditLog } from '@brokkr/contract/audit/audit-log.ts'
import { Access, AdminPak } from '@brokkr/contract/auth/admin-pak.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import { PlanWithResults } from '@brokkr/contract/plans/plan.ts'
import { Stack, StackStatus } from '@brokkr/contract/stacks/stack.ts'
import { RenderedTemplate, StackTemplate } from '@brokkr/contract/templates/template.ts'
import { Webhook } from '@brokkr/contract/webhooks/subscription.ts'
import { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { commands } from './index.ts'

interface Ended {
  readonly code: number
  readonly stdout: string
  readonly stderr: string
}
let broker: TestBroker
let folder: string
let receiver: string
let run: (args: readonly string[]) => Promise<Ended>
const covered = new Map<string, { hasJson: boolean }>()

beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__BROKER__WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' } })
  folder = await mkdtemp(join(tmpdir(), 'brokkr-cli-'))
  const server = createServer((request, response) => void request.resume().on('end', () => response.end('ok')))
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  receiver = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  await write('admin.pak', broker.adminPak)
  const host = fork(fileURLToPath(new URL('../test-parts/command-host.ts', import.meta.url)), [], {
    cwd: folder,
    execArgv: [],
    env: {
      PATH: process.env['PATH'] ?? '',
      HOME: folder,
      XDG_CONFIG_HOME: join(folder, 'config'),
      BROKKR_BROKER_URL: broker.url,
      BROKKR_PAK_FILE: join(folder, 'admin.pak'),
    },
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  run = (args) =>
    new Promise((resolve, reject) => {
      host.once('exit', reject)
      host.once('message', (ended) => {
        host.off('exit', reject)
        resolve(ended as Ended)
      })
      host.send(args)
    })
  return async () => {
    host.disconnect()
    server.close()
    await broker.kill()
  }
}, 600_000)

const write = async (name: string, content: string) => {
  await writeFile(join(folder, name), content)
  return join(folder, name)
}
const configMap = (value: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c, namespace: default}\ndata: {v: "${value}"}\n`

/** Notes the longest command of the table that the arguments begin with. */
function note(args: readonly string[], hasJson: boolean): void {
  const fits = commands.filter(({ path }) => args.slice(0, path.split(' ').length).join(' ') === path)
  const { path } = fits.toSorted((a, b) => b.path.length - a.path.length)[0]!
  covered.set(path, { hasJson: hasJson || (covered.get(path)?.hasJson ?? false) })
}

/** Succeeds with nothing on standard error. */
async function text(pattern: RegExp, ...args: string[]): Promise<string> {
  const ended = await run(args)
  expect.soft(ended, args.join(' ')).toMatchObject({ code: 0, stderr: '' })
  expect.soft(ended.stdout).toMatch(pattern)
  note(args, false)
  return ended.stdout
}

/** Succeeds with JSON that fits the schema. */
async function json<T extends z.ZodType>(schema: T, ...args: string[]): Promise<z.output<T>> {
  const ended = await run([...args, '-o', 'json'])
  expect.soft(ended, args.join(' ')).toMatchObject({ code: 0, stderr: '' })
  const value: unknown = JSON.parse(ended.stdout)
  expect(schema.safeParse(value).error?.issues, `${args.join(' ')}\n${ended.stdout.slice(0, 500)}`).toBeUndefined()
  note(args, true)
  return value as z.output<T>
}

/** Fails with nothing on standard output, and a message. */
async function fails(code: number, message: string, ...args: string[]): Promise<void> {
  const ended = await run(args)
  expect([ended.code, ended.stdout], `${args.join(' ')}\n${ended.stderr}`).toEqual([code, ''])
  expect(ended.stderr).toContain(message)
}

const Deleted = z.strictObject({ id: z.string(), name: z.string().optional(), deleted: z.literal(true) })
const Labels = z.array(z.object({ label: z.string() }))

test('generators, agents and invites', async () => {
  await json(endpoints.createGenerator.response, 'generators', 'create', 'shop')
  await json(endpoints.listGenerators.response, 'generators', 'list')
  await json(z.object({ generator: endpoints.getGenerator.response }), 'generators', 'describe', 'shop')
  await json(endpoints.rotateGeneratorPak.response, 'generators', 'rotate', 'shop', '--yes')
  await json(endpoints.createAgent.response, 'agents', 'create', 'edge', '-l', 'env:test')
  await json(z.array(Agent), 'agents', 'list')
  await json(z.array(Agent), 'get', 'agents')
  await json(z.object({ agent: Agent, labels: z.array(z.unknown()) }), 'agents', 'describe', 'edge')
  await json(z.object({ agent: Agent }), 'describe', 'agent', 'edge')
  await json(Labels, 'agents', 'label', 'edge', 'env:prod')
  await json(endpoints.registerAgent.response, 'generators', 'register', 'shop', 'edge')
  await json(Agent, 'agents', 'pause', 'edge')
  await json(Agent, 'agents', 'resume', 'edge')
  await json(Agent, 'agents', 'drain', 'edge')
  await json(endpoints.rotateAgentPak.response, 'agents', 'rotate', 'edge', '--yes')
  await json(endpoints.approvePrune.response, 'agents', 'approve-prune', 'edge', '--removals', '3', '--yes')
  await fails(2, 'name what may be removed', 'agents', 'approve-prune', 'edge')
  await json(endpoints.createAgentInvite.response, 'agents', 'invite', 'edge-2')
  const [invite] = await json(endpoints.listAgentInvites.response, 'access', 'invites')
  await json(z.object({ id: z.string(), revoked: z.literal(true) }), 'access', 'revoke-invite', invite!.id)
  await fails(3, 'agent not found', 'agents', 'describe', 'edgy')
}, 600_000)

test('stacks: content, plans, holds, rollback, deletion', async () => {
  const [one, two] = [await write('one.yaml', configMap('1')), await write('two.yaml', configMap('2'))]
  await json(Stack, 'stacks', 'create', 'web', '--generator', 'shop')
  await json(Labels, 'stacks', 'label', 'web', 'env:prod')
  await json(endpoints.createDeploymentObject.response, 'apply', '-f', one, '--stack', 'web')
  await json(PlanWithResults, 'plan', '-f', two, '--stack', 'web', '--timeout', '1ms')
  const Differences = z.array(z.object({ kind: z.string(), name: z.string(), change: z.string(), fields: z.array(z.unknown()) }))
  expect(await json(Differences, 'diff', '-f', two, '--stack', 'web')).toMatchObject([{ kind: 'ConfigMap', change: 'changed' }])
  await json(endpoints.createDeploymentObject.response, 'apply', '-f', two, '--stack', 'web')
  await json(Differences, 'stacks', 'compare', 'web', '1', '2')
  await json(endpoints.listDeploymentObjects.response, 'stacks', 'history', 'web')
  await text(/v: "2"/, 'stacks', 'show', 'web')
  await json(endpoints.rollbackStack.response, 'rollback', 'web', '--to', '1', '--reason', '5xx')
  await json(endpoints.holdStack.response, 'hold', 'web', '--reason', 'sale')
  await json(z.unknown(), 'release', 'web')
  await fails(3, 'hold_not_found', 'release', 'web')
  await json(endpoints.listStacks.response, 'stacks', 'list')
  await json(z.object({ stack: Stack, status: StackStatus.partial() }), 'stacks', 'describe', 'web')
  await json(endpoints.getStackTree.response, 'tree', 'web')
  await json(z.array(z.unknown()), 'events', 'web')
  await json(z.object({ reaches: z.literal(true), shared_labels: z.array(z.unknown()) }), 'explain', 'target', 'web', 'edge')
  await json(z.object({ stack: z.literal('web'), status: z.object({ agent_name: z.literal('edge') }) }), 'explain', 'stuck', 'web@edge')
  await json(z.unknown(), 'stacks', 'target', 'web', '--agent', 'edge')
  expect(await json(z.strictObject({ ...Access.shape }), 'access', 'can-i', 'web', 'deploy')).toMatchObject({ allowed: true })
  const status = await run(['status', '-o', 'json'])
  expect([status.code, Overview.safeParse(JSON.parse(status.stdout)).success]).toEqual([6, true])
  note(['status'], true)
  await json(Deleted, 'stacks', 'delete', 'web', '--yes')
  await json(Stack, 'stacks', 'undelete', 'web')
}, 600_000)

test('templates, work orders and webhooks', async () => {
  const file = await write('web.tera', 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ name }}}\n')
  await json(endpoints.lintTemplate.response, 'templates', 'lint', '-f', file)
  await json(StackTemplate, 'templates', 'publish', 'web', '-f', file)
  await json(endpoints.listTemplates.response, 'templates', 'list')
  await json(StackTemplate, 'templates', 'describe', 'web')
  await json(endpoints.listTemplates.response, 'templates', 'versions', 'web')
  await json(RenderedTemplate, 'templates', 'render', 'web', '--stack', 'web', '--set', 'name=a')
  await json(endpoints.instantiateTemplate.response, 'templates', 'apply', 'web', '--stack', 'web', '--set', 'name=a')
  await json(Deleted, 'templates', 'delete', 'web:1', '--yes')

  const job = await write('job.yaml', configMap('job'))
  const order = await json(WorkOrder, 'work-orders', 'create', '-f', job, '--type', 'custom', '--agent', 'edge')
  await json(z.array(WorkOrder), 'work-orders', 'list')
  await json(WorkOrder, 'work-orders', 'describe', order.id)
  await json(endpoints.getWorkOrderOutput.response, 'work-orders', 'output', order.id)
  const edge = (await broker.admin.listAgents({ query: { name: 'edge' } }))[0]!
  const worker = broker.clientOf((await broker.admin.rotateAgentPak({ params: { id: edge.id }, body: {} })).pak!)
  const params = { id: order.id }
  await worker.claimWorkOrder({ params, body: { agent_id: edge.id } })
  await worker.completeWorkOrder({ params, body: { success: false, message: 'no', retryable: false } })
  const watched = await run(['work-orders', 'watch', order.id, '-o', 'json'])
  expect([watched.code, WorkOrder.safeParse(JSON.parse(watched.stdout)).success]).toEqual([6, true])
  expect(watched.stderr).toContain('failed')
  note(['work-orders', 'watch'], true)
  const again = await json(WorkOrder, 'work-orders', 'retry', order.id)
  await json(Deleted, 'work-orders', 'cancel', again.id, '--yes')

  await json(endpoints.createWebhook.response, 'webhooks', 'create', 'alerts', '--url', receiver)
  await json(z.array(Webhook), 'webhooks', 'list')
  await json(z.object({ webhook: Webhook, deliveries: z.array(z.unknown()) }), 'webhooks', 'describe', 'alerts')
  await json(endpoints.testWebhook.response, 'webhooks', 'test', 'alerts')
  await json(endpoints.listDeliveries.response, 'webhooks', 'deliveries', 'alerts')
  await json(endpoints.replayDeliveries.response, 'webhooks', 'replay', 'alerts')
  expect(await json(Webhook, 'webhooks', 'pause', 'alerts')).toMatchObject({ enabled: false })
  expect(await json(Webhook, 'webhooks', 'resume', 'alerts')).toMatchObject({ enabled: true })
  await json(endpoints.rotateWebhookSecret.response, 'webhooks', 'rotate', 'alerts')
  await json(Deleted, 'webhooks', 'delete', 'alerts', '--yes')
}, 600_000)

test('access, audit and installation', async () => {
  await json(endpoints.createAdminPak.response, 'access', 'create', 'ops')
  await json(z.array(AdminPak), 'access', 'list')
  await json(endpoints.verifyPak.response, 'access', 'whoami')
  await json(endpoints.rotateAdminPak.response, 'access', 'rotate', 'ops', '--yes')
  await json(z.object({ revoked: z.literal(true) }), 'access', 'revoke', 'ops', '--yes')
  const [entry] = await json(z.array(AuditLog), 'audit', 'list', '--limit', '1')
  await json(AuditLog, 'audit', 'show', entry!.id)
  await text(/^\{.*\}\n/, 'audit', 'export', '--action', 'pak.*')
  const { code, stdout } = await run(['doctor', '-o', 'json'])
  const findings = z.array(z.object({ check: z.string(), ok: z.boolean(), text: z.string() })).parse(JSON.parse(stdout))
  expect(code).toBe(findings.every(({ ok }) => ok) ? 0 : 6)
  note(['doctor'], true)
  await json(z.object({ client: z.string(), broker: z.object({ url: z.literal(broker.url) }) }), 'version')
  const link = await run(['login', '--link'])
  expect([link.code, /^http\S+\/login#one-time-\S+\n$/.test(link.stdout), link.stderr.includes('one use')]).toEqual([0, true, true])
  await text(/as admin/, 'login', broker.url, '--name', 'here', '--pak-file', join(folder, 'admin.pak'))
  await json(z.object({ current: z.literal('here') }), 'context', 'list')
  await text(/is in use/, 'context', 'use', 'here')
  await text(/is removed/, 'logout', 'here')
  await text(/__complete/, 'completion', 'bash')
  await text(/^status$/m, '__complete', '--', 'sta')
  await text(/values masked/, 'support-bundle', '--out', join(folder, 'bundle.json.gz'))
  const kafka = (topic: string) => ({ type: 'kafka', config: { brokers: ['broker.invalid:9092'], topic } })
  const metadata = { name: 'f', namespace: 'default' }
  const flow = { apiVersion: 'dataflow.dataflow.io/v1', kind: 'DataFlow', metadata, spec: { source: kafka('in'), sink: kafka('out') } }
  const file = await write('flow.json', JSON.stringify(flow))
  await text(/f: valid\n$/, 'flows', 'validate', '-f', file)
  const invalid = await run(['flows', 'validate', '-f', await write('bad.json', JSON.stringify({ ...flow, spec: {} }))])
  expect([invalid.code, invalid.stdout.includes('source'), invalid.stderr.includes('1 of 1 flows are invalid')]).toEqual([6, true, true])
  await text(/"a"/, 'flows', 'preview', '-f', file, '--sample', await write('sample.ndjson', '{"a":1}\n'))
  await json(z.unknown(), 'generators', 'deregister', 'shop', 'edge', '--yes')
  await json(Deleted, 'agents', 'remove', 'edge', '--yes')
  await json(Deleted, 'generators', 'remove', 'shop', '--yes')
}, 600_000)

/** Commands that need a cluster or a database of their own, with the test that runs them and the words by which it does. */
const elsewhere: Readonly<Record<string, readonly [file: string, words: string]>> = {
  up: ['packages/cli/src/up/up.test.ts', "'up', '--lite'"],
  down: ['packages/cli/src/up/up.test.ts', "'down', '--purge'"],
  join: ['packages/cli/src/commands/setup/join.test.ts', "'join', '--name'"],
  logs: ['packages/cli/src/commands/system.test.ts', "'logs', `${name}@edge-17`"],
  agent: ['packages/testing/src/agent.ts', "'agent'"],
  pipelines: ['journeys/promotion.test.ts', "'pipelines'"],
  approve: ['journeys/promotion.test.ts', "run('approve'"],
  reject: ['journeys/promotion.test.ts', "run('reject'"],
  promote: ['journeys/promotion.test.ts', "run('promote'"],
  // The same code as approve, reject and promote, under a second name.
  'pipeline reject': ['journeys/promotion.test.ts', "run('reject'"],
  'pipeline promote': ['journeys/promotion.test.ts', "run('promote'"],
  ...Object.fromEntries(
    ['list', 'explain', 'approve', 'retry', 'abort', 'rollback', 'hold', 'release'].map((verb) => [
      `pipeline ${verb}`,
      ['journeys/promotion.test.ts', `run('pipeline', '${verb}'`] as const,
    ]),
  ),
  ...Object.fromEntries(
    ['list', 'describe', 'pause', 'resume', 'rewind', 'skip', 'replay', 'run'].map((verb) => [
      `flows ${verb}`,
      ['packages/cli/src/commands/flows/steering.test.ts', `flows('${verb}'`] as const,
    ]),
  ),
  'dataflow processor': ['packages/dataflow/src/processor/test-parts/real-flow.ts', "'dataflow',"],
  'dataflow operator': ['packages/dataflow/src/operator/takeover.test.ts', "'dataflow', 'operator'"],
  'dataflow replay': ['packages/dataflow/src/processor/replay/replay.test.ts', "'dataflow', 'replay'"],
  'dataflow preview': ['packages/broker/src/forward/forward.test.ts', "'dataflow', 'preview'"],
  'broker serve': ['packages/cli/src/commands/broker/broker.test.ts', "'serve'"],
  'broker migrate': ['packages/cli/src/commands/broker/broker.test.ts', "'migrate'"],
  'broker reseal': ['packages/broker/src/sealing/reseal.test.ts', "'reseal'"],
  ...Object.fromEntries(
    ['rotate admin', 'rotate generator', 'rotate agent', 'create admin', 'create generator', 'create login-link'].map((words) => [
      `broker ${words}`,
      ['packages/cli/src/commands/broker/broker.test.ts', `'${words.replace(' ', "', '")}'`] as const,
    ]),
  ),
  'broker create agent': ['packages/cli/src/commands/broker/broker.test.ts', "'west'"],
}

test('every command of the table has a test on a running system', () => {
  const root = fileURLToPath(new URL('../../../../', import.meta.url))
  const isNamed = ([file, words]: readonly [string, string]) =>
    existsSync(join(root, file)) && readFileSync(join(root, file), 'utf8').includes(words)
  const missing = commands.flatMap(({ path, options }) => {
    const named = elsewhere[path]
    // The commands of flows on a cluster have tests of their own.
    if (named === undefined && path.startsWith('flows ') && !covered.has(path)) return []
    if (named !== undefined) return isNamed(named) ? [] : [`${path}: ${named.join(' has no ')}`]
    const step = covered.get(path)
    if (step === undefined) return [`${path}: no test`]
    const needsJson = (options ?? []).some(({ flags }) => flags.includes('--output'))
    return needsJson && !step.hasJson ? [`${path}: no test of -o json`] : []
  })
  expect(missing).toEqual([])
})
