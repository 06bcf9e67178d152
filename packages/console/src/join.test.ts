// The join wizard with a real cluster and a real agent: the invite turns green while one watches, and a submitted stack appears as a tree.
// long: starts an agent in a cluster
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { startBrowser } from '@brokkr/testing/servers/browser.ts'
import { type ConsolePage, openConsole, signIn } from '@brokkr/testing/servers/console-page.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { callServers } from '@brokkr/testing/servers/owner/client.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type { Browser } from 'playwright-core'
import { beforeAll, expect, test } from 'vitest'

let broker: TestBroker
let browser: Browser
let kube: TestCluster
let tenant: TestGenerator
let signedIn: ConsolePage
let agent: ProgramProcess | undefined
let stackId: string
let objectsNamespace: string
const name = unique('edge')

beforeAll(async () => {
  ;[broker, browser, kube] = await Promise.all([startTestBroker(), startBrowser(), cluster({ controllers: false })])
  tenant = await createGenerator(broker, 'shop-ci')
  signedIn = await openConsole(browser, broker.url)
  await signIn(signedIn, broker)
  return async () => {
    await browser.close()
    await agent?.kill()
    await broker.kill()
  }
}, 400_000)

/** As the Secret of the join manifest would mount the token. */
async function startAgent(token: string, namespace: string): Promise<ProgramProcess> {
  const folder = await callServers('loan.folder', { kind: 'plain' })
  const tokenFile = join(folder, 'token')
  await writeFile(tokenFile, token, { mode: 0o600 })
  const env = {
    BROKKR__AGENT__BROKER_URL: broker.url,
    BROKKR__AGENT__AGENT_NAME: name,
    BROKKR__AGENT__CLUSTER_NAME: name,
    BROKKR__AGENT__JOIN_TOKEN_FILE: tokenFile,
    BROKKR__AGENT__KUBECONFIG_PATH: kube.kubeconfigPath,
    BROKKR__AGENT__NAMESPACE: namespace,
    BROKKR__AGENT__HEALTH_PORT: '0',
  }
  return startProgram({ name: 'agent', main: 'packages/agent/src/main.ts', env, folder })
}

test('an invited cluster turns green, and a stack that reaches it shows its objects', async () => {
  const { page, problems } = signedIn
  await page.goto('/')
  await page.getByRole('heading', { level: 1, name: 'No cluster yet' }).waitFor()
  await page.getByLabel('Name', { exact: true }).fill(name)
  await page.getByLabel(/^Labels/).fill('env:prod')
  await page.getByLabel('shop-ci').check()
  await page.getByRole('button', { name: 'Create invite' }).click()
  const command = await page.locator('.join-command code').innerText()
  const [, token] = /Authorization: Join (jt_\S+)'/.exec(command) ?? []
  // The namespace of the agent itself is protected.
  const [own, namespace] = await Promise.all([kube.namespace('agent'), kube.namespace('shop')])
  agent = await startAgent(token!, own)
  await page.locator('.join-command.green').waitFor({ timeout: 120_000 })
  await page.getByRole('button', { name: 'Open the fleet' }).click()
  await page.getByRole('heading', { level: 1, name: 'Fleet' }).waitFor()

  const stack = await tenant.client.createStack({ body: { name: 'shop', generator_id: tenant.generator.id, labels: ['env:prod'] } })
  await tenant.client.createDeploymentObject({
    params: { id: stack.id },
    body: {
      yaml_content: JSON.stringify({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'flags', namespace }, data: { beta: 'on' } }),
    },
  })
  await waitFor('the tree of the stack', async () => (await broker.admin.getStackTree({ params: { id: stack.id } })).length > 0, {
    limitMs: 90_000,
    onTimeout: async () => `${JSON.stringify(await broker.admin.getStackStatus({ params: { id: stack.id } }))}\n${agent!.logTail(20)}`,
  })
  await page.goto(`/stacks/${stack.id}`)
  await page.getByRole('group', { name: 'Objects of shop' }).getByText('flags').waitFor({ timeout: 120_000 })
  expect(problems).toEqual([])
  stackId = stack.id
  objectsNamespace = namespace
}, 300_000)

test('the plan of a rollback and of a deletion comes from the agent and names the objects', async () => {
  const { page } = signedIn
  const submitted = await tenant.client.createDeploymentObject({
    params: { id: stackId },
    body: {
      yaml_content: JSON.stringify({
        apiVersion: 'v1',
        kind: 'ConfigMap',
        metadata: { name: 'flags', namespace: objectsNamespace },
        data: { beta: 'off' },
      }),
    },
  })
  await waitFor(
    'the second version in the cluster',
    async () => {
      const [unit] = (await broker.admin.getStackStatus({ params: { id: stackId } })).agents
      return unit?.sequence_id === submitted.sequence_id && unit.phase === 'applied'
    },
    { limitMs: 90_000, onTimeout: () => agent!.logTail(20) },
  )
  await page.goto(`/stacks/${stackId}`)
  await page.getByRole('button', { name: 'Roll back' }).first().click()
  const planned = page.getByRole('dialog').getByRole('list', { name: 'Changes of the plan' })
  await planned.getByText(/update ConfigMap/).waitFor({ timeout: 90_000 })
  await planned.getByText(/beta/).waitFor()
  await page.keyboard.press('Escape')
  await page.getByRole('button', { name: 'Delete' }).first().click()
  await planned.getByText(/delete ConfigMap/).waitFor({ timeout: 90_000 })
  await page.keyboard.press('Escape')
}, 300_000)

test('a work order is run by the agent, and its result is shown', async () => {
  const { page } = signedIn
  await page.goto('/work-orders')
  await page.getByRole('button', { name: 'New work order' }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByLabel('Type').fill('custom')
  await dialog.getByLabel('Label', { exact: true }).fill('env:prod')
  await dialog.getByLabel(/Manifest/).fill(`apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: once\n  namespace: ${objectsNamespace}\n`)
  await dialog.getByRole('button', { name: 'Create' }).click()
  await waitFor('the work order to end', async () => (await broker.admin.listWorkOrderLog({ query: {} })).length === 1, {
    limitMs: 120_000,
    onTimeout: () => agent!.logTail(20),
  })
  await page.goto('/work-orders?tab=finished')
  await page.getByRole('main').getByText('custom').first().waitFor({ timeout: 60_000 })
  expect((await broker.admin.listWorkOrderLog({ query: {} }))[0]).toMatchObject({ success: true })
}, 300_000)
