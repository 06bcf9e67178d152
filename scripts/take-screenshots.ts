// Takes pictures of every screen: `node scripts/take-screenshots.ts <folder> [words of names]`. The fleet is that of the tests.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { startTestBroker, type TestBroker } from '@brokkr/testing/broker.ts'
import { buildConsoleWorld, consoleWorldEnv } from '@brokkr/testing/console-world.ts'
import { startBrowser } from '@brokkr/testing/servers/browser.ts'
import { type ConsolePage, openConsole, signIn } from '@brokkr/testing/servers/console-page.ts'

const [folder = 'reports/screenshots', ...words] = process.argv.slice(2)
const widths = [1440, 1024, 375] as const
const themes = ['light', 'dark'] as const

mkdirSync(folder, { recursive: true })
const browser = await startBrowser()
const empty = await startTestBroker()
const full = await startTestBroker({ env: consoleWorldEnv })
const world = await buildConsoleWorld(full, { more: 120 })
const shop = world.stacks[0]!.stack.id
const bad = world.clusters.find(({ agent }) => agent.name === 'edge-17')!.agent.id
const pages: Record<string, string> = {
  fleet: '/',
  stacks: '/stacks',
  stack: `/stacks/${shop}?cluster=${bad}`,
  history: `/stacks/${shop}?tab=history`,
  targets: `/stacks/${shop}?tab=targets`,
  cluster: `/clusters/${bad}`,
  promotions: '/promotions',
  flows: '/flows',
  flow: `/flows/${world.flowId}`,
  'flow-editor': '/flows?tab=editor',
  timeline: '/timeline?range=1h',
  drift: '/drift',
  diagnostics: '/diagnostics',
  'work-orders': '/work-orders',
  templates: '/templates',
  webhooks: '/webhooks',
  audit: '/audit',
  access: '/access',
  invites: '/access?tab=invites',
  broker: '/broker',
  settings: '/broker?tab=settings',
  docs: '/docs',
}
const isChosen = (name: string) => words.length === 0 || words.some((word) => name.includes(word))

for (const width of widths)
  for (const theme of themes) {
    const at = await openConsole(browser, full.url, { width, height: width === 375 ? 812 : 900, theme })
    await signIn(at, full)
    for (const [name, path] of Object.entries(pages)) await shoot(at, path, `${name}-${theme}-${width}`)
    await at.context.close()
    const atEmpty = await openConsole(browser, empty.url, { width, height: width === 375 ? 812 : 900, theme })
    await shoot(atEmpty, '/', `sign-in-${theme}-${width}`)
    await signIn(atEmpty, empty)
    for (const name of ['fleet', 'stacks', 'promotions', 'flows', 'timeline', 'drift', 'webhooks', 'templates', 'work-orders'])
      await shoot(atEmpty, pages[name]!, `${name}-empty-${theme}-${width}`)
    await atEmpty.context.close()
  }
await shootFailing(full)
await browser.close()
await Promise.all([empty.kill(), full.kill()])

async function shoot({ page }: ConsolePage, path: string, name: string): Promise<void> {
  if (!isChosen(name)) return
  await page.goto(path)
  await page.getByRole('heading', { level: 1 }).first().waitFor()
  await page.waitForLoadState('networkidle', { timeout: 3_000 }).catch(() => undefined)
  await page.screenshot({ path: join(folder, `${name}.png`) })
  process.stdout.write(`${name}.png\n`)
}

/** The broker is gone: last data with their age. */
async function shootFailing(broker: TestBroker): Promise<void> {
  if (!isChosen('fleet-failing')) return
  const at = await openConsole(browser, broker.url)
  await signIn(at, broker)
  await at.page
    .getByText(/of \d+ clusters current/)
    .first()
    .waitFor()
  await broker.kill()
  await at.page.getByText(/stale since/).waitFor({ timeout: 60_000 })
  await at.page.getByText('The broker does not respond').first().waitFor({ timeout: 60_000 })
  await at.page.screenshot({ path: join(folder, 'fleet-failing-light-1440.png') })
}
