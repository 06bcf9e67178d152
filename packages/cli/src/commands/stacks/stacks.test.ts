// `brokkr apply|get|status|describe` as people and scripts run them: processes, a real broker.
// long: starts the program per case
import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { createAgent, createGenerator, startTestBroker, type TestAgent, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'

let broker: TestBroker
let folder: string
let tenant: Awaited<ReturnType<typeof createGenerator>>
let agent: TestAgent
beforeAll(async () => {
  broker = await startTestBroker()
  folder = await mkdtemp(join(tmpdir(), 'brokkr-cli-'))
  await writeFile(join(folder, 'admin.pak'), broker.adminPak)
  await writeFile(join(folder, 'a.yaml'), manifest('1'))
  tenant = await createGenerator(broker)
  agent = await createAgent(broker, { labels: ['env:test'], generators: [tenant] })
}, 120_000)

const manifest = (value: string) => `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, namespace: default}\ndata: {v: "${value}"}\n`

async function run(args: readonly string[], url: string = broker.url) {
  const program = await startProgram({
    name: 'brokkr',
    main: 'packages/cli/src/main.ts',
    args: ['--broker', url, '--pak-file', join(folder, 'admin.pak'), ...args],
    env: { XDG_CONFIG_HOME: folder },
  })
  const { code } = await program.exited
  return { code, text: program.text() }
}
const apply = (stack: string, ...more: string[]) =>
  run(['apply', '-f', join(folder, 'a.yaml'), '--stack', stack, '--generator', tenant.generator.name, '-l', 'env:test', ...more])

/** The agent says of every stack it has: in this phase of what is wanted, in this health. */
async function reportAll(health: 'healthy' | 'degraded' | 'failing', phase: 'applied' | 'failed' = 'applied'): Promise<void> {
  const observed_at = new Date().toISOString()
  const params = { id: agent.agent.id }
  await agent.client.recordHeartbeat({ params, body: {} })
  const objects = await agent.client.getTargetState({ params, query: { mode: 'full' } })
  const stacks = objects.map((object) => ({
    stack_id: object.stack_id,
    rev: object.rev,
    object_id: object.id,
    phase,
    attempts: 1,
    observed_at,
  }))
  await agent.client.reportStatus({ params, body: { session: 0, n: Date.now(), stacks } })
  const deployment_objects = objects.map(({ id }) => ({
    id,
    status: health,
    checked_at: observed_at,
    summary: { pods_ready: 0, pods_total: 1, conditions: [], resources: [] },
  }))
  await agent.client.updateHealthStatus({ params, body: { deployment_objects } })
}

test('an unreachable broker exits with 8 and a next step', async () => {
  const url = `http://127.0.0.1:${await freePort()}`
  const { code, text } = await run(['get', 'agents'], url)
  expect(code).toBe(8)
  for (const part of ['the broker cannot be reached', url, 'ECONNREFUSED', 'next']) expect(text).toContain(part)
}, 60_000)

test('usage errors exit with 2, unknown names with 3, rejected PAKs with 4', async () => {
  expect(await apply(unique('s'), '--wait', '--timeout', 'soon')).toMatchObject({ code: 2 })
  expect(await run(['get', 'stacks', '--wrong'])).toMatchObject({ code: 2 })
  expect(await run(['describe', 'stack', 'nothing'])).toMatchObject({ code: 3 })
  await writeFile(join(folder, 'wrong.pak'), 'brokkr_BRaaaaaa_aaaaaaaaaaaaaaaaaaaaaaaa')
  expect(await run(['--pak-file', join(folder, 'wrong.pak'), 'get', 'agents'])).toMatchObject({ code: 4 })
}, 60_000)

test('apply --wait exits with 7 after its timeout', async () => {
  const name = unique('waited')
  const waited = await apply(name, '--wait', '--timeout', '500ms')
  expect(waited).toMatchObject({ code: 7, text: expect.stringContaining(`${name} 0 → 1`) as unknown })
}, 60_000)

/** The broker keeps the overview for up to a second, so the command may show the state before the last report. */
async function statusNames(pattern: RegExp): Promise<void> {
  const expected = { code: 6, text: expect.stringMatching(pattern) as unknown }
  await expect.poll(() => run(['status']), { timeout: 20_000 }).toMatchObject(expected)
}

test('status exits with 6 and lists unhealthy stacks until all are healthy', async () => {
  const name = unique('stack')
  expect((await apply(name)).code).toBe(0)
  // Nothing was reported yet: pending.
  await statusNames(new RegExp(`wrong +${name}`))
  await reportAll('degraded')
  await statusNames(new RegExp(`wrong +${name} +degraded`))
  await reportAll('healthy')
  await expect.poll(async () => (await run(['status'])).text, { timeout: 20_000 }).toContain('2 of 2 healthy')
  expect((await run(['status'])).code).toBe(0)
  expect((await run(['get', 'stacks'])).text).toMatch(new RegExp(`${name} +1 +1/1 +healthy`))
  // The applied object can be healthy although a later deployment object failed.
  await reportAll('healthy', 'failed')
  await statusNames(new RegExp(`wrong +${name} +failed on 1 of 1 agents`))
  await reportAll('healthy')
  await expect.poll(async () => (await run(['status'])).code, { timeout: 20_000 }).toBe(0)
  // A stack without a deployment object has nothing to run; with one, it needs an agent.
  const lonely = await broker.admin.createStack({ body: { name: unique('lonely'), generator_id: tenant.generator.id } })
  expect((await run(['status'])).code).toBe(0)
  await tenant.client.createDeploymentObject({ params: { id: lonely.id }, body: { yaml_content: manifest('2') } })
  await expect.poll(async () => (await run(['status'])).text, { timeout: 20_000 }).toContain('no agent')
  expect((await run(['status'])).code).toBe(6)
}, 120_000)

test('apply exits with 5 if another client submitted after the comparison', async () => {
  const name = unique('moved')
  const stack = await broker.admin.createStack({ body: { name, generator_id: tenant.generator.id } })
  // Another client submits between the comparison and the submission.
  const between = createServer((from, to) => {
    void forward(from, async () => {
      if (from.method === 'GET' && from.url?.includes('/deployment-objects'))
        await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: manifest('theirs') } })
    }).then(({ status, text }) => to.writeHead(status, { 'content-type': 'application/json' }).end(text))
  })
  await new Promise<void>((resolve) => void between.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void between.close())
  const url = `http://127.0.0.1:${(between.address() as AddressInfo).port}`
  const moved = await run(['apply', '-f', join(folder, 'a.yaml'), '--stack', name], url)
  expect(moved).toMatchObject({ code: 5, text: expect.stringContaining('stack_moved') as unknown })
  const objects = await broker.admin.listDeploymentObjects({ params: { id: stack.id }, query: { content: false } })
  expect(objects.length).toBe(1)
}, 60_000)

async function forward(from: IncomingMessage, after: () => Promise<void>): Promise<{ status: number; text: string }> {
  const chunks: Buffer[] = []
  for await (const chunk of from as AsyncIterable<Buffer>) chunks.push(chunk)
  const headers = { authorization: from.headers.authorization ?? '', 'content-type': 'application/json' }
  const body = from.method === 'GET' ? {} : { body: Buffer.concat(chunks).toString() }
  const answer = await fetch(broker.url + (from.url ?? '/'), { method: from.method ?? 'GET', headers, ...body })
  const text = await answer.text()
  await after()
  return { status: answer.status, text }
}
