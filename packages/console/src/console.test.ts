// The console in a real browser against a real broker: sign-in, live changes, roll back, hostile texts, accessibility, an interrupted broker.
// long: opens every screen in both themes
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { createAgent, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { buildConsoleWorld, type ConsoleWorld, consoleWorldEnv, manifestOf } from '@brokkr/testing/console-world.ts'
import { startProgram } from '@brokkr/testing/program.ts'
import { startBrowser } from '@brokkr/testing/servers/browser.ts'
import { type ConsolePage, openConsole, signIn } from '@brokkr/testing/servers/console-page.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type { Browser } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'

let broker: TestBroker
let browser: Browser
let world: ConsoleWorld
let signedIn: ConsolePage
/** Receives the webhook of the world. */
const receiver = createServer((request, response) => {
  request.resume()
  response.end()
})

beforeAll(async () => {
  const [previewPort] = await freePorts(1)
  const previewUrl = `http://127.0.0.1:${previewPort}`
  const env = { ...consoleWorldEnv, BROKKR__BROKER__DATAFLOW_PREVIEW_URL: previewUrl }
  const args = ['dataflow', 'preview', '--port', String(previewPort)]
  const startPreview = startProgram({ name: 'preview', main: 'packages/cli/src/main.ts', args, env: {} })
  const [preview, ...started] = await Promise.all([startPreview, startTestBroker({ env }), startBrowser()])
  ;[broker, browser] = started
  await waitFor('the preview program', async () => (await fetch(`${previewUrl}/healthz`)).ok)
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve))
  world = await buildConsoleWorld(broker, { hookUrl: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook` })
  signedIn = await openConsole(browser, broker.url)
  await signIn(signedIn, broker)
  return async () => {
    await browser.close()
    await Promise.all([broker.kill(), preview.kill()])
    receiver.close()
  }
}, 240_000)

const stackOf = (name: string) => world.stacks.find(({ stack }) => stack.name === name)!

test('[X28] the document forbids inline scripts, other origins and frames', async () => {
  const response = await fetch(`${broker.url}/stacks/anything`)
  const policy = response.headers.get('content-security-policy') ?? ''
  for (const part of [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
  ])
    expect(policy).toContain(part)
  const html = await response.text()
  expect(html).not.toMatch(/<script>|<style|\sstyle=|\son\w+=/)
  const [, asset] = /src="(\/assets\/[^"]+\.js)"/.exec(html) ?? []
  const script = await fetch(broker.url + asset!, { headers: { 'accept-encoding': 'br' } })
  expect([script.headers.get('cache-control'), script.headers.get('content-encoding')]).toEqual([
    'public, max-age=31536000, immutable',
    'br',
  ])
  expect((await fetch(`${broker.url}/assets/missing.js`)).status).toBe(404)
})

test('sign-in with a wrong key says so and keeps the form', async () => {
  const { page, context } = await openConsole(browser, broker.url)
  await page.goto('/')
  await page.getByLabel('Key').fill('brokkr_BRwrong1_1111111111111111111111111111')
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByText('the broker does not know this key').waitFor()
  await context.close()
})

test('a link signs in once, and its token is not in the address afterwards', async () => {
  const { url } = await broker.admin.createLoginLink({})
  const path = `/login${new URL(url).hash}`
  const { page, context } = await openConsole(browser, broker.url)
  await page.goto(path)
  await page.getByRole('heading', { level: 1, name: 'Fleet' }).waitFor()
  expect(page.url()).toBe(`${broker.url}/`)
  await context.close()
  const second = await openConsole(browser, broker.url)
  await second.page.goto(path)
  await second.page.getByText('the link was used already').waitFor()
  await second.context.close()
})

test('a link does not replace a session before the user agrees', async () => {
  const { page, context } = await openConsole(browser, broker.url)
  await signIn({ page } as ConsolePage, broker)
  const session = async () => (await context.cookies()).find(({ name }) => name === 'brokkr_session')!.value
  const before = await session()
  const { url } = await broker.admin.createLoginLink({})
  await page.goto(`/login${new URL(url).hash}`)
  await page.getByText('You are signed in already').waitFor()
  expect(await session()).toBe(before)
  await page.getByRole('button', { name: 'Use the link' }).click()
  await page.getByRole('heading', { level: 1, name: 'Fleet' }).waitFor()
  expect(await session()).not.toBe(before)
  await context.close()
})

test('no key is in any storage of the browser, and scripts cannot read the session', async () => {
  const stored = await signedIn.page.evaluate('JSON.stringify([{...localStorage}, {...sessionStorage}, document.cookie, location.href])')
  expect(stored).not.toMatch(/brokkr_BR|brokkr_session/)
  const [cookie] = await signedIn.context.cookies()
  expect([cookie!.name, cookie!.httpOnly, cookie!.sameSite]).toEqual(['brokkr_session', true, 'Strict'])
})

test('a stack is found by a part of its name, and the filter is in the URL', async () => {
  const { page } = signedIn
  await page.goto('/stacks')
  await page.getByLabel('Search stacks').fill('LEDG')
  await page.waitForURL(/search=LEDG/)
  const list = page.getByRole('list', { name: 'Stacks' })
  await list.getByRole('link').first().waitFor()
  await waitFor('one row', async () => (await list.getByRole('link').count()) === 1)
  await list.getByRole('link', { name: /ledger/ }).click()
  await page.getByRole('heading', { level: 1, name: 'ledger' }).waitFor()
})

test('a version that is submitted elsewhere appears without a reload', async () => {
  const { page } = signedIn
  const { stack, object } = stackOf('search')
  await page.goto(`/stacks/${stack.id}?tab=history`)
  await page.getByRole('list', { name: 'Versions' }).getByText(String(object.sequence_id), { exact: true }).waitFor()
  await page.evaluate('window.sameDocument = true')
  const submitted = await world.tenant.client.createDeploymentObject({
    params: { id: stack.id },
    body: { yaml_content: manifestOf('search', 'web:2.0', 'third') },
  })
  await page.getByRole('list', { name: 'Versions' }).getByText(String(submitted.sequence_id), { exact: true }).waitFor({ timeout: 30_000 })
  expect(await page.evaluate('window.sameDocument')).toBe(true)
})

test('a stack is rolled back and held after its plan was shown, with secrets masked, and released', async () => {
  const { page } = signedIn
  const { stack, object } = stackOf('billing')
  await page.goto(`/stacks/${stack.id}`)
  await page.getByRole('button', { name: 'Roll back' }).first().click()
  const dialog = page.getByRole('dialog')
  await dialog.getByRole('region', { name: 'Difference' }).waitFor()
  const difference = await dialog.getByRole('region', { name: 'Difference' }).innerText()
  expect(difference).toContain('web:1.9')
  expect(difference).not.toMatch(/first|second/)
  await dialog.getByLabel(/Reason/).fill('5xx')
  await dialog.getByRole('button', { name: /Roll back \d+ clusters and hold/ }).click()
  await page.getByText(`billing ${object.sequence_id + 1} has the content of ${object.sequence_id - 1}`).waitFor()
  const [head] = await broker.admin.listDeploymentObjects({ params: { id: stack.id }, query: { limit: 1 } })
  expect([head!.sequence_id, head!.rollback_of === null]).toEqual([object.sequence_id + 1, false])
  const hold = page.getByRole('region', { name: 'Hold' })
  await hold.getByText(`held at ${object.sequence_id + 1}`).waitFor()
  await world.tenant.client.createDeploymentObject({
    params: { id: stack.id },
    body: { yaml_content: manifestOf('billing', 'web:2.0', 'third') },
  })
  await hold.getByText(`${object.sequence_id + 2} wait behind it`).waitFor({ timeout: 30_000 })
  await hold.getByRole('button', { name: 'Release' }).click()
  await page.getByRole('button', { name: `Release and deliver ${object.sequence_id + 2}` }).click()
  await hold.waitFor({ state: 'detached' })
})

test('[X28] hostile names, labels, messages and log lines are shown as text', async () => {
  const { page, problems } = signedIn
  const script = '<script>window.broken=1</script>'
  const image = '<img src=x onerror=window.broken=1>'
  const { client, generator } = world.tenant
  const stack = await client.createStack({
    body: { name: `${image} \u202egnp`, generator_id: generator.id, labels: ['hostile', `<b>${unique('x')}`] },
  })
  const agent = await createAgent(broker, { name: script, labels: ['hostile'], generators: [world.tenant] })
  const large = `---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: large\n  namespace: x\ndata:\n  text: '${script}${'x'.repeat(1_000_000)}'\n`
  const object = await client.createDeploymentObject({
    params: { id: stack.id },
    body: { yaml_content: `${manifestOf('x', 'web:1', 'p')}${large}` },
  })
  const params = { id: agent.agent.id }
  const now = new Date().toISOString()
  await agent.client.recordHeartbeat({ params, body: { facts: { note: image } } })
  await agent.client.reportStatus({
    params,
    body: {
      session: 1,
      n: 1,
      stacks: [
        {
          stack_id: stack.id,
          rev: object.sequence_id,
          object_id: object.id,
          phase: 'failed',
          message: `${image} \u001b[31mred`,
          observed_at: now,
        },
      ],
    },
  })
  await agent.client.pushTelemetry({
    params,
    body: {
      pod_log_lines: [
        {
          agent_id: agent.agent.id,
          stack_id: stack.id,
          namespace: 'x',
          pod: 'p',
          container: 'c',
          ts: now,
          line: `${script} \u001b[31mred\u001b[0m ${'a'.repeat(10_000)}`,
        },
      ],
      k8s_events: [
        {
          agent_id: agent.agent.id,
          stack_id: stack.id,
          observed_at: now,
          reason: image,
          message: image,
          event_type: 'Warning',
          involved_object: { api_version: 'v1', kind: 'Pod', name: image },
        },
      ],
    },
  })
  await agent.client.createEvent({
    params,
    body: { agent_id: agent.agent.id, deployment_object_id: object.id, event_type: 'DEPLOY', status: 'FAILURE', message: image },
  })
  const before = problems.length
  for (const path of [
    '/',
    '/stacks',
    `/stacks/${stack.id}`,
    `/stacks/${stack.id}?tab=events`,
    `/stacks/${stack.id}?tab=logs`,
    `/stacks/${stack.id}?tab=targets`,
    `/stacks/${stack.id}?tab=desired`,
    '/timeline?range=1h',
    `/clusters/${agent.agent.id}`,
    '/audit',
  ]) {
    await page.goto(path)
    await page.getByRole('heading', { level: 1 }).first().waitFor()
  }
  await page.goto(`/stacks/${stack.id}?tab=logs`)
  await page.getByRole('list', { name: 'Log lines' }).getByText(`${script} red`).waitFor()
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toContain('<img src=x')
  expect(await page.getByRole('heading', { level: 1 }).innerText()).toContain('\\u202e')
  expect(await page.evaluate('window.broken')).toBeUndefined()
  expect(problems.slice(before)).toEqual([])
})

test('the timeline shows versions, results and changes; a mark narrows the list; a version opens its difference', async () => {
  const { page } = signedIn
  const { stack, object } = stackOf('catalog')
  await broker.admin.holdStack({ params: { id: stack.id }, body: { reason: 'noon' } })
  await page.goto('/timeline?range=1h')
  const changes = page.getByRole('table', { name: 'Changes' })
  await changes.getByText(new RegExp(`^catalog ${object.sequence_id} submitted`)).waitFor()
  await changes.getByText('stack catalog held').waitFor()
  await changes.getByText(/^shop \d+ failed on edge-17$/).waitFor()
  const rows = await changes.getByRole('row').count()
  await page
    .getByRole('group', { name: /^Timeline with/ })
    .getByRole('button', { name: /drifted on/ })
    .last()
    .press('Enter')
  await page.getByRole('button', { name: 'Show all' }).waitFor()
  expect(await changes.getByRole('row').count()).toBeLessThan(rows)
  await page.getByRole('button', { name: 'Show all' }).click()
  await changes
    .getByRole('row', { name: new RegExp(`catalog ${object.sequence_id} submitted`) })
    .getByRole('link', { name: 'Difference' })
    .click()
  await page.getByRole('region', { name: 'Difference' }).waitFor()
  await broker.admin.releaseStack({ params: { id: stack.id } })
})

test('a flow is listed with its figures, drawn as a graph, and paused by an order for its agent', async () => {
  const { page } = signedIn
  await page.goto('/flows')
  const row = page.getByRole('table', { name: 'Flows' }).getByRole('row', { name: /orders-to-kafka/ })
  await row.getByText('312 /s').waitFor()
  expect(await row.innerText()).toMatch(/312 \/s[\s\S]*48 s[\s\S]*61[\s\S]*dev-1[\s\S]*orders-flow/)
  await row.getByRole('link', { name: 'orders-to-kafka' }).click()
  await page.getByRole('img', { name: /source kafka orders, transform mask email, card.*errors kafka orders-dead/ }).waitFor()
  await page.getByRole('button', { name: 'Pause' }).click()
  await page.getByRole('region', { name: 'Orders' }).getByText('pause', { exact: true }).waitFor()
  await page.getByRole('button', { name: 'Rewind…' }).click()
  const dialog = page.getByRole('dialog', { name: 'Rewind orders-to-kafka' })
  await dialog.getByText('brokkr flows rewind orders-to-kafka --to earliest -n orders').waitFor()
  await dialog.getByRole('button', { name: 'Rewind the flow' }).click()
  await dialog.waitFor({ state: 'detached' })
  const { orders } = await broker.admin.getFlow({ params: { id: world.flowId } })
  expect(orders.map(({ action, status }) => [action, status])).toEqual([
    ['rewind', 'PENDING'],
    ['pause', 'PENDING'],
  ])
})

test('a flow is checked where it is written, and its effect on samples is shown step by step', async () => {
  const { page } = signedIn
  await page.goto('/flows?tab=editor')
  await page.getByRole('img', { name: /source kafka orders/ }).waitFor()
  const text = page.getByLabel('Flow, YAML')
  const valid = await text.inputValue()
  await text.fill('kind: [')
  const problems = page.getByRole('list', { name: 'Problems' })
  await problems.getByText(/line 1/).waitFor()
  expect(await page.getByRole('button', { name: 'Check and preview' }).isDisabled()).toBe(true)
  await text.fill(valid.replace('type: mask', 'type: unheard-of'))
  await page.getByRole('button', { name: 'Check and preview' }).click()
  await problems
    .getByText(/transformations/)
    .first()
    .waitFor()
  await text.fill(valid)
  await page.getByRole('button', { name: 'Check and preview' }).click()
  const preview = page.getByRole('region', { name: 'Preview' })
  await preview.getByText('The flow is valid').waitFor()
  await preview.getByText(/^written to/).waitFor()
  expect(await preview.innerText()).not.toContain('ada@example.com')
})

test('a webhook is tested, and a delivery is sent again', async () => {
  const { page } = signedIn
  await page.goto('/webhooks')
  await page.getByRole('button', { name: 'Send a test' }).click()
  await page.getByText(/^200 /).waitFor()
  // Other tests create work orders as well, so the deliveries are counted by the broker.
  const listCreated = () => broker.admin.listAllDeliveries({ query: { event_type: 'workorder.created' } })
  const shown = page.getByRole('button', { name: 'workorder.created' })
  await shown.first().click()
  await page.getByRole('button', { name: 'Replay', exact: true }).click()
  await page.getByText('the message is sent again as a new delivery').waitFor()
  const deliveries = await listCreated()
  expect(deliveries.filter(({ replay_of }) => replay_of !== null)).toHaveLength(1)
  await waitFor('the new delivery in the list', async () => (await shown.count()) === deliveries.length)
})

test('a template is rendered while its parameters are typed', async () => {
  const { page } = signedIn
  await page.goto('/templates')
  const rendered = page.getByLabel('Rendered manifest')
  await rendered.getByText('name: flags').waitFor()
  await page.getByLabel('name (required)').fill('other')
  await rendered.getByText('name: other').waitFor()
  await page.getByLabel('replicas').fill('7')
  await rendered.getByText('replicas: "7"').waitFor()
})

test('a work order is created by the form and can be cancelled', async () => {
  const { page } = signedIn
  await page.goto('/work-orders')
  await page.getByRole('button', { name: 'New work order' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Type').fill('reindex')
  await dialog.getByLabel('Label', { exact: true }).fill('env:staging')
  await dialog.getByLabel(/Manifest/).fill('apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: once\n  namespace: shop\n')
  await dialog.getByRole('button', { name: 'Create' }).click()
  await page.getByRole('complementary', { name: 'Work order' }).getByText('reindex').waitFor()
  await page.getByRole('button', { name: 'Cancel order' }).click()
  await page.getByText('the work order is cancelled').waitFor()
})

/** Paths; `{…}` is replaced by an id of the world. */
const screens = [
  '/',
  '/stacks',
  '/promotions',
  '/flows',
  '/flows?tab=editor',
  '/flows/{flow}',
  '/timeline',
  '/timeline?range=1h',
  '/drift',
  '/diagnostics',
  '/work-orders',
  '/templates',
  '/webhooks',
  '/audit',
  '/access',
  '/access?tab=generators',
  '/access?tab=invites',
  '/broker',
  '/broker?tab=settings',
  '/docs',
  '/clusters/{cluster}',
  '/stacks/{stack}',
  '/stacks/{stack}?tab=history',
  '/stacks/{stack}?tab=targets',
] as const
const toPath = (screen: string): string =>
  screen.replace('{cluster}', world.clusters[0]!.agent.id).replace('{stack}', stackOf('shop').stack.id).replace('{flow}', world.flowId)

/** One signed-in page per theme for all screens. */
const themed = new Map<string, Promise<ConsolePage>>()
async function openThemed(theme: 'light' | 'dark'): Promise<ConsolePage> {
  const own = await openConsole(browser, broker.url, { theme })
  await signIn(own, broker)
  return own
}

test.each((['light', 'dark'] as const).flatMap((theme) => screens.map((screen) => [screen, theme] as const)))(
  '%s satisfies WCAG 2.2 AA in the %s theme',
  async (screen, theme) => {
    if (!themed.has(theme)) themed.set(theme, openThemed(theme))
    const own = await themed.get(theme)!
    await own.page.goto(toPath(screen))
    await own.page.getByRole('heading', { level: 1 }).first().waitFor()
    await own.page.waitForLoadState('networkidle', { timeout: 1_500 }).catch(() => undefined)
    expect(await own.findViolations()).toEqual([])
    expect(own.problems).toEqual([])
  },
)

test('pages are reached by keyboard alone', async () => {
  const { page } = signedIn
  await page.goto('/')
  await page.getByRole('heading', { name: 'Fleet' }).waitFor()
  await page.keyboard.press('g')
  await page.keyboard.press('s')
  await page.waitForURL(/\/stacks/)
  await page.keyboard.press('Control+k')
  await page.getByRole('combobox', { name: 'Name or verb' }).fill('ledger')
  await page.getByRole('option', { name: /ledger/ }).waitFor()
  await page.keyboard.press('Enter')
  await page.getByRole('heading', { level: 1, name: 'ledger' }).waitFor()
})

test('at 375 px the screens do not scroll sideways and a stack can be rolled back', async () => {
  const small = await openConsole(browser, broker.url, { width: 375, height: 812 })
  await signIn(small, broker)
  for (const path of ['/', '/stacks', `/stacks/${stackOf('shop').stack.id}`, '/promotions', '/timeline', `/flows/${world.flowId}`]) {
    await small.page.goto(path)
    await small.page.getByRole('heading', { level: 1 }).first().waitFor()
    expect([path, await small.page.evaluate('document.documentElement.scrollWidth <= innerWidth')]).toEqual([path, true])
  }
  await small.page.goto(`/stacks/${stackOf('shop').stack.id}`)
  await small.page.getByRole('button', { name: 'Roll back' }).last().click()
  await small.page
    .getByRole('dialog')
    .getByRole('button', { name: /Roll back \d+ clusters/ })
    .waitFor()
  await small.context.close()
})

test('a revoked session keeps the page and its draft, and asks to sign in again', async () => {
  const own = await openConsole(browser, broker.url)
  await signIn(own, broker)
  const { page } = own
  await page.goto(`/stacks/${stackOf('geo').stack.id}?tab=desired`)
  await page.getByRole('button', { name: 'Submit a version' }).click()
  await page.getByLabel(/Manifests/).fill('kind: Draft')
  const [cookie] = await own.context.cookies()
  await fetch(`${broker.url}/api/v1/auth/session`, {
    method: 'DELETE',
    headers: { cookie: `${cookie!.name}=${cookie!.value}`, origin: broker.url, 'x-brokkr-console': '1' },
  })
  const dialog = page.getByRole('dialog', { name: 'Sign in again' })
  await dialog.waitFor({ timeout: 60_000 })
  expect(await page.getByLabel(/Manifests/).inputValue()).toBe('kind: Draft')
  await dialog.getByLabel('Key').fill(broker.adminPak)
  await dialog.getByRole('button', { name: 'Sign in' }).click()
  await dialog.waitFor({ state: 'detached' })
  expect(await page.getByLabel(/Manifests/).inputValue()).toBe('kind: Draft')
  await own.context.close()
})

test('a killed broker makes the page stale with its age; it recovers by itself and keeps its data and drafts', async () => {
  const { page } = signedIn
  await page.goto('/')
  await page.getByText('live', { exact: true }).waitFor()
  await page.goto(`/stacks/${stackOf('geo').stack.id}?tab=desired`)
  await page.getByRole('button', { name: 'Submit a version' }).click()
  await page.getByLabel(/Manifests/).fill('kind: Draft')
  await page.getByText('live', { exact: true }).waitFor()
  await page.evaluate('window.sameDocument = true')
  await broker.kill()
  await page.getByText(/stale since/).waitFor({ timeout: 60_000 })
  await page.getByRole('heading', { level: 1, name: 'geo' }).waitFor()
  broker = await broker.again()
  await page.getByText('live', { exact: true }).waitFor({ timeout: 60_000 })
  expect(await page.evaluate('window.sameDocument')).toBe(true)
  expect(await page.getByLabel(/Manifests/).inputValue()).toBe('kind: Draft')
  expect(signedIn.problems).toEqual([])
})
