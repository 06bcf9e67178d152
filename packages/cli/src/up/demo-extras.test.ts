// Template, webhook, inbox page and work order of the demo, on a real broker.
import { mkdtemp, stat } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createGenerator, startTestBroker, type TestBroker, type TestGenerator } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { ensureDemoExtras } from './demo-extras.ts'
import { isSigned } from './inbox.ts'

let broker: TestBroker
let tenant: TestGenerator
let dir: string
beforeAll(async () => {
  broker = await startTestBroker({ env: { BROKKR__BROKER__WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' } })
  tenant = await createGenerator(broker, 'demo')
  dir = await mkdtemp(join(tmpdir(), 'brokkr-up-'))
  return () => broker.kill()
}, 600_000)

/** One start of the demo; `stop` ends its inbox. */
async function start() {
  const stopping = new AbortController()
  const context = { dir, signal: stopping.signal } as unknown as Parameters<typeof ensureDemoExtras>[0]
  const at = { url: broker.url, adminPak: broker.adminPak, keysDir: dir }
  const generatorId = tenant.generator.id
  const { detail } = await ensureDemoExtras(context, at, { agentId: '', generatorId, generatorPak: tenant.pak })
  return { inbox: /http:\S+/.exec(detail)![0], stop: () => stopping.abort() }
}
async function readContent() {
  const { listTemplates, listWebhooks, listWorkOrders } = broker.admin
  return { templates: await listTemplates({}), webhooks: await listWebhooks({}), orders: await listWorkOrders({}) }
}
const page = async (url: string) => (await fetch(url)).text()

test('the demo is created once, and its events arrive at the inbox page', async () => {
  const first = await start()
  const content = await readContent()
  expect([content.templates.length, content.webhooks.length, content.orders.length]).toEqual([1, 1, 1])
  expect(content.templates[0]?.generator_id).toBe(tenant.generator.id)
  expect((await stat(join(dir, 'demo-webhook.secret'))).mode & 0o777).toBe(0o600)
  await waitFor('the event of the work order', async () => (await page(first.inbox)).includes('workorder.created'), { limitMs: 120_000 })
  first.stop()

  const second = await start()
  expect(second.inbox).toBe(first.inbox)
  expect(await readContent()).toEqual(content)
  const body = { name: 'seen', generator_id: tenant.generator.id }
  const stack = await tenant.client.createStack({ body })
  await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: <script>' } })
  await waitFor('the next event', async () => (await page(second.inbox)).includes('deployment.created'), { limitMs: 120_000 })
  expect(await page(second.inbox)).not.toContain('<script>')
  // The rendered template is a valid manifest.
  const parameters = { text: 'Hi: "you"' }
  const call = { params: { stack_id: stack.id }, query: { dry_run: true }, body: { template_id: content.templates[0]!.id, parameters } }
  expect((await tenant.client.instantiateTemplate(call)).yaml_content).toContain('text: "Hi: \\"you\\""')
  second.stop()
}, 600_000)

test('the webhook follows the inbox to another port if its own is taken', async () => {
  const first = await start()
  first.stop()
  const { port } = new URL(first.inbox)
  const squatter = createServer()
  await waitFor(
    'the port',
    () =>
      new Promise<boolean>((resolve) =>
        squatter.once('error', () => resolve(false)).listen(Number(port), '127.0.0.1', () => resolve(true)),
      ),
  )
  const second = await start()
  expect(second.inbox).not.toBe(first.inbox)
  const [webhook] = await broker.admin.listWebhooks({})
  expect(await broker.admin.testWebhook({ params: { id: webhook!.id } })).toMatchObject({ success: true, status_code: 204 })
  second.stop()
  squatter.close()
}, 600_000)

test.each([
  ['POST', '/', {}, 401],
  ['POST', '/', { 'webhook-id': 'a', 'webhook-timestamp': '1', 'webhook-signature': 'v1,AAAA' }, 401],
  ['PUT', '/', {}, 405],
  ['GET', '/', {}, 200],
])('the inbox answers %s %s with headers %j by %i', async (method, path, headers, status) => {
  const { inbox, stop } = await start()
  expect((await fetch(new URL(path, inbox), { method, headers })).status).toBe(status)
  stop()
})

test('a signature is bound to id, time and body', () => {
  const secret = 'whsec_c2VjcmV0'
  const headers = {
    'webhook-id': 'id',
    'webhook-timestamp': '1000',
    'webhook-signature': 'v1,AAAA v1,NU0Sa1TwtCFbWVhVKg6y+C7e6y3xllYPjbrvt35yda0=',
  }
  expect(isSigned({ headers }, '{}', secret, 1_000_000)).toBe(true)
  expect(isSigned({ headers }, '{ }', secret, 1_000_000)).toBe(false)
  expect(isSigned({ headers }, '{}', secret, 1_400_000)).toBe(false)
  expect(isSigned({ headers: { ...headers, 'webhook-id': 'other' } }, '{}', secret, 1_000_000)).toBe(false)
  expect(isSigned({ headers: {} }, '{}', secret, 1_000_000)).toBe(false)
})
