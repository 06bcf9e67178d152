// The board in a real browser with a real pipelines controller: a promotion is approved by the panel, another one rejected, and a drag
// asks for the same decision as the button.
// needs: kubernetes, postgres
// long: starts a cluster, an agent and the controller
import { randomBytes } from 'node:crypto'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { startBrowser } from '@brokkr/testing/servers/browser.ts'
import { type ConsolePage, openConsole, signIn } from '@brokkr/testing/servers/console-page.ts'
import { type PrivateCluster, privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

const label = unique('env')
const key = randomBytes(24).toString('hex')
let at: PrivateCluster
let kube: ReturnType<typeof openKube>
let broker: TestBroker
let tenant: TestGenerator
let controller: ProgramProcess
let signedIn: ConsolePage

beforeAll(async () => {
  const [hookPort, metricsPort, probePort] = await freePorts(3)
  const [cluster, started, browser] = await Promise.all([
    privateCluster(),
    startTestBroker({
      env: { BROKKR__BROKER__PIPELINES_URL: `http://127.0.0.1:${hookPort}`, BROKKR__BROKER__PIPELINES_KEY: key },
    }),
    startBrowser(),
  ])
  ;[at, broker] = [cluster, started]
  kube = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  controller = await startProgram({
    name: 'pipelines',
    main: 'packages/cli/src/main.ts',
    args: [
      'pipelines',
      '--install-crds',
      '--kubeconfig',
      at.kubeconfigPath,
      '--broker-url',
      broker.url,
      '--promotion-hook-bind-address',
      `127.0.0.1:${hookPort}`,
      '--metrics-bind-address',
      `127.0.0.1:${metricsPort}`,
      '--health-probe-bind-address',
      `127.0.0.1:${probePort}`,
    ],
    env: { BROKKR__PIPELINES__VOUCHING_KEYS: key, BROKKR__PIPELINES__STACK_POLL: '0.2', BROKKR__PIPELINES__NAMESPACE: 'default' },
  })
  tenant = await createGenerator(broker)
  const created = await createAgent(broker, { labels: [label], generators: [tenant] })
  const agent = await startTestAgent({
    broker,
    agent: created,
    kubeconfigPath: at.kubeconfigPath,
    namespace: await at.namespace('agent'),
    env: { BROKKR__AGENT__DEPLOYMENT_HEALTH_INTERVAL: '1' },
  })
  await waitFor('the controller', async () => (await fetch(`http://127.0.0.1:${probePort}/readyz`)).status === 200, {
    limitMs: 120_000,
    onTimeout: () => controller.logTail(20),
  })
  signedIn = await openConsole(browser, broker.url)
  await signIn(signedIn, broker)
  return async () => {
    await browser.close()
    await kube.close()
    await Promise.all([agent.kill(), controller.kill(), broker.kill()])
    await at.stop()
  }
}, 400_000)

/** A pipeline of two stacks whose second environment waits for the approval of `v2`. */
async function openWaitingPipeline(): Promise<{ name: string; namespace: string; phases: () => Promise<string[]> }> {
  const [namespace, name] = [await at.namespace('shop'), unique('shop')]
  const namespaces = { dev: await at.namespace('dev'), prod: await at.namespace('prod') }
  const environments = ['dev', 'prod'] as const
  const submit = async (environment: (typeof environments)[number], stackId: string, version: string) =>
    tenant.client.createDeploymentObject({
      params: { id: stackId },
      body: {
        yaml_content:
          `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shop\n  namespace: ${namespaces[environment]}\ndata:\n` +
          `  version: ${version} # {"$promotion": "${namespace}:${name}:${environment}"}\n`,
      },
    })
  const create = (environment: string) =>
    tenant.client.createStack({ body: { name: `${name}-${environment}`, generator_id: tenant.generator.id, labels: [label] } })
  const [dev, prod] = [await create('dev'), await create('prod')]
  await submit('prod', prod.id, 'v1')
  await submit('dev', dev.id, 'v1')
  const data = { pak: Buffer.from(tenant.pak).toString('base64') }
  await kube.create({ apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name: 'broker' }, data })
  await kube.create({
    apiVersion: 'pipelines.weave.works/v1alpha1',
    kind: 'Pipeline',
    metadata: { namespace, name },
    spec: {
      appRef: { apiVersion: 'brokkr.io/v1', kind: 'Stack', name },
      environments: environments.map((each) => ({ name: each, targets: [{ namespace: '', stack: `${name}-${each}` }] })),
      promotion: { manual: true, strategy: { stack: { mode: 'Marker', secretRef: { name: 'broker' } } } },
    },
  })
  const readVersion = async (environment: 'dev' | 'prod') => {
    const found = await kube.find({ apiVersion: 'v1', kind: 'ConfigMap', namespace: namespaces[environment], name: 'shop' })
    return (found?.['data'] as { version?: string } | undefined)?.version
  }
  for (const environment of environments)
    await waitFor(`${environment} to run v1`, async () => (await readVersion(environment)) === 'v1', {
      limitMs: 120_000,
      onTimeout: () => controller.logTail(20),
    })
  await submit('dev', dev.id, 'v2')
  const phases = async () => {
    const promotions = await broker.admin.listPromotions({ query: { namespace, pipeline: name } })
    return promotions.map(({ spec, status }) => `${String(spec['revision'])} ${String(status['phase'])}`)
  }
  await waitFor('the approval', async () => (await phases()).includes('v2 AwaitingApproval'), {
    limitMs: 120_000,
    onTimeout: async () => `${await phases()}\n${controller.logTail(20)}`,
  })
  return { name, namespace, phases }
}

test('a promotion is approved on the board and reaches the environment; the drop asks for the same decision', async () => {
  const { page, problems } = signedIn
  const { name, phases } = await openWaitingPipeline()
  await page.goto('/promotions')
  const lane = page.getByRole('region', { name: `Pipeline ${name}` })
  const card = lane.getByRole('link', { name: /v2 .*waits for approval/ })
  await card.waitFor({ timeout: 60_000 })
  await card.dragTo(lane.getByRole('heading', { name: 'prod' }))
  const dialog = page.getByRole('dialog', { name: 'Approve v2 for prod' })
  await dialog.getByText(`brokkr approve ${name}/prod`).waitFor()
  await dialog.getByRole('button', { name: 'Cancel' }).click()
  expect(await phases()).toContain('v2 AwaitingApproval')
  await card.click()
  const panel = page.getByRole('complementary', { name: 'Promotion' })
  await panel.getByLabel(/^Reason/).fill('checked')
  await panel.getByRole('button', { name: 'Approve' }).click()
  await page.getByText(`${name}: 1 of 1 approvals`).waitFor()
  await waitFor('the promotion to succeed', async () => (await phases()).includes('v2 Succeeded'), {
    limitMs: 120_000,
    onTimeout: async () => `${await phases()}\n${controller.logTail(20)}`,
  })
  await lane.getByText('v2', { exact: true }).nth(1).waitFor({ timeout: 60_000 })
  expect(problems).toEqual([])
}, 400_000)

test('a promotion is rejected on the board and can be tried again', async () => {
  const { page } = signedIn
  const { name, phases } = await openWaitingPipeline()
  await page.goto('/promotions?show=all')
  const lane = page.getByRole('region', { name: `Pipeline ${name}` })
  await lane.getByRole('link', { name: /v2 .*waits for approval/ }).click({ timeout: 60_000 })
  const panel = page.getByRole('complementary', { name: 'Promotion' })
  await panel.getByLabel(/^Reason/).fill('not today')
  await panel.getByRole('button', { name: 'Reject' }).click()
  await waitFor('the rejection', async () => (await phases()).includes('v2 Rejected'), {
    limitMs: 120_000,
    onTimeout: async () => `${await phases()}\n${controller.logTail(20)}`,
  })
  await panel.getByText('not today').waitFor({ timeout: 60_000 })
  await panel.getByRole('button', { name: 'Retry' }).click({ timeout: 60_000 })
  await waitFor('the next series', async () => (await phases()).includes('v2 AwaitingApproval'), { limitMs: 120_000 })
}, 400_000)
