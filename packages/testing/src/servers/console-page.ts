// A page of the console that is signed in, and what must stay empty on it: violations of the content security policy and script errors.
import { AxeBuilder } from '@axe-core/playwright'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import type { TestBroker } from '../broker.ts'

export interface ConsolePage {
  readonly page: Page
  readonly context: BrowserContext
  /** Policy violations, script errors and requests to other origins, as sentences. */
  readonly problems: string[]
  /** Violations of WCAG 2.2 AA, as sentences. */
  findViolations(rules?: string[]): Promise<string[]>
}

export interface PageOptions {
  readonly width?: number
  readonly height?: number
  readonly theme?: 'light' | 'dark'
}

export async function openConsole(browser: Browser, url: string, options: PageOptions = {}): Promise<ConsolePage> {
  const context = await browser.newContext({
    baseURL: url,
    viewport: { width: options.width ?? 1440, height: options.height ?? 900 },
    colorScheme: options.theme ?? 'light',
    reducedMotion: 'reduce',
  })
  const page = await context.newPage()
  const problems: string[] = []
  await page.addInitScript({ content: reportViolations })
  page.on('pageerror', (error) => problems.push(`script error: ${error.message}`))
  page.on('console', (message) => {
    if (message.type() === 'error' && /policy|Content Security|trusted/i.test(message.text())) problems.push(message.text())
  })
  page.on('request', (request) => {
    const target = request.url()
    if (!target.startsWith(url) && !/^(data|blob):/.test(target)) problems.push(`request to another origin: ${target}`)
  })
  return { page, context, problems, findViolations: (rules) => findViolations(page, rules) }
}

/** The console channel is the only one that reaches the test from every frame. */
const reportViolations = `document.addEventListener('securitypolicyviolation', (event) => {
  console.error('policy violation: ' + event.violatedDirective + ' ' + event.blockedURI)
})`

/** By the form that people use. */
export async function signIn({ page }: ConsolePage, broker: Pick<TestBroker, 'adminPak'>, path = '/'): Promise<void> {
  await page.goto(path)
  await page.getByLabel('Key').fill(broker.adminPak)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page
    .getByRole('navigation', { name: 'Main', exact: true })
    .or(page.getByRole('navigation', { name: 'Main, small screen' }))
    .first()
    .waitFor()
}

const standards = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa']

async function findViolations(page: Page, rules?: string[]): Promise<string[]> {
  const axe = new AxeBuilder({ page })
  const { violations } = await (rules === undefined ? axe.withTags(standards) : axe.withRules(rules)).analyze()
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.slice(0, 3).map((node) => `${id}: ${help}: ${node.target.join(' ')} ${node.failureSummary ?? ''}`),
  )
}
