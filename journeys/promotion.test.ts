// needs: kubernetes, postgres
// A revision from dev to prod: broker, agent, pipelines controller and command line as processes, a real PostgreSQL, a real API server.
import { randomBytes } from 'node:crypto'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { freePorts } from '@brokkr/local/supervisor/free-ports.ts'
import { type AgentProcess, startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { type ProgramProcess, startProgram } from '@brokkr/testing/program.ts'
import { type PrivateCluster, privateCluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

const PIPELINE = { apiVersion: 'pipelines.weave.works/v1alpha1', kind: 'Pipeline' }
const label = unique('env')
const key = randomBytes(24).toString('hex')
let at: PrivateCluster
let kube: ReturnType<typeof openKube>
let broker: TestBroker
let tenant: TestGenerator
let agent: AgentProcess
let controller: ProgramProcess
let folder: string

beforeAll(async () => {
  const [hookPort, metricsPort, probePort] = await freePorts(3)
  at = await privateCluster()
  kube = openKube(await loadKubeconfig({ path: at.kubeconfigPath, env: {} }))
  broker = await startTestBroker({
    env: { BROKKR__BROKER__PIPELINES_URL: `http://127.0.0.1:${hookPort}`, BROKKR__BROKER__PIPELINES_KEY: key },
  })
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
  agent = await startTestAgent({
    broker,
    agent: created,
    kubeconfigPath: at.kubeconfigPath,
    namespace: await at.namespace('agent'),
    env: { BROKKR__AGENT__DEPLOYMENT_HEALTH_INTERVAL: '1' },
  })
  folder = await mkdtemp(join(tmpdir(), 'brokkr-promotion-'))
  await writeFile(join(folder, 'admin.pak'), broker.adminPak)
  await waitFor('the controller', async () => (await fetch(`http://127.0.0.1:${probePort}/readyz`)).status === 200, {
    onTimeout: () => controller.logTail(20),
  })
  return async () => {
    await kube.close()
    await Promise.all([agent.kill(), controller.kill(), broker.kill()])
    await at.stop()
  }
}, 240_000)

async function run(...args: string[]): Promise<{ code: number | null; text: string }> {
  const program = await startProgram({
    name: 'brokkr',
    main: 'packages/cli/src/main.ts',
    args: ['--broker', broker.url, '--pak-file', join(folder, 'admin.pak'), ...args],
    env: { XDG_CONFIG_HOME: folder, KUBECONFIG: at.kubeconfigPath },
  })
  const { code } = await program.exited
  return { code, text: program.text() }
}

/** Two stacks with a marked version each, and a pipeline with one approval between them. */
async function openShop() {
  const [namespace, name] = [await at.namespace('shop'), unique('shop')]
  const namespaces = { dev: await at.namespace('dev'), prod: await at.namespace('prod') }
  type Environment = keyof typeof namespaces
  const manifest = (environment: Environment, version: string) =>
    `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shop\n  namespace: ${namespaces[environment]}\ndata:\n` +
    `  version: ${version} # {"$promotion": "${namespace}:${name}:${environment}"}\n`
  const create = (environment: Environment) =>
    tenant.client.createStack({ body: { name: `${name}-${environment}`, generator_id: tenant.generator.id, labels: [label] } })
  const stacks = { dev: await create('dev'), prod: await create('prod') }
  const submit = (environment: Environment, version: string) =>
    tenant.client.createDeploymentObject({
      params: { id: stacks[environment].id },
      body: { yaml_content: manifest(environment, version) },
    })
  await submit('prod', 'v1')
  await submit('dev', 'v1')
  const data = { pak: Buffer.from(tenant.pak).toString('base64') }
  await kube.create({ apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name: 'broker' }, data })
  await kube.create({
    ...PIPELINE,
    metadata: { namespace, name },
    spec: {
      appRef: { apiVersion: 'brokkr.io/v1', kind: 'Stack', name },
      environments: (['dev', 'prod'] as const).map((each) => ({ name: each, targets: [{ namespace: '', stack: `${name}-${each}` }] })),
      promotion: { manual: true, strategy: { stack: { mode: 'Marker', secretRef: { name: 'broker' } } } },
    },
  })
  const explain = async () => `${(await run('pipeline', 'explain', name)).text}\n${controller.logTail(10)}\nagent: ${agent.logTail(5)}`
  const phases = async () => {
    const promotions = await broker.admin.listPromotions({ query: { namespace, pipeline: name } })
    return promotions.map(({ spec, status }) => `${String(spec['run'])} ${String(spec['revision'])} ${String(status['phase'])}`)
  }
  const seesPhase = (phase: string) =>
    waitFor(`promotion ${phase}`, async () => (await phases()).includes(phase), {
      onTimeout: async () => `${await phases()}\n${await explain()}`,
    })
  /** The number of the run, which depends on whether dev settled on v1 before. */
  const awaitsApproval = async (revision: string): Promise<string> => {
    const phase = await waitFor(
      'the approval',
      async () => (await phases()).find((each) => each.endsWith(` ${revision} AwaitingApproval`)),
      {
        onTimeout: async () => `${await phases()}\n${await explain()}`,
      },
    )
    return phase.split(' ')[0] ?? ''
  }
  const readVersion = async (environment: Environment) => {
    const found = await kube.find({ apiVersion: 'v1', kind: 'ConfigMap', namespace: namespaces[environment], name: 'shop' })
    return (found?.['data'] as { version?: string } | undefined)?.version
  }
  const runs = (environment: Environment, version: string) =>
    waitFor(`${environment} to run ${version}`, async () => (await readVersion(environment)) === version, { onTimeout: explain })
  const readHold = async () => (await kube.get({ ...PIPELINE, namespace, name })).metadata.annotations?.['pipelines.brokkr.io/hold']
  await runs('dev', 'v1')
  await runs('prod', 'v1')
  return { name, namespace, stacks, submit, phases, seesPhase, awaitsApproval, readVersion, readHold }
}

test('a revision in dev is approved on the command line and reaches prod', async () => {
  const shop = await openShop()
  await shop.submit('dev', 'v2')
  await shop.awaitsApproval('v2')
  expect(await shop.readVersion('prod')).toBe('v1')
  const listed = await run('pipeline', 'list', '-n', shop.namespace)
  expect(listed).toMatchObject({
    code: 0,
    text: expect.stringMatching(/dev v2 → prod v1 \(AwaitingApproval\) +AwaitingApproval/) as unknown,
  })
  const approved = await run('approve', `${shop.name}/prod`, '--reason', 'checked', '--wait', '--timeout', '2m')
  expect(approved).toMatchObject({ code: 0, text: expect.stringContaining(`${shop.name}/prod v2 approved: 1 of 1`) as unknown })
  expect(approved.text).toMatch(/run \d succeeded in prod/)
  expect(await shop.readVersion('prod')).toBe('v2')
  const objects = await tenant.client.listDeploymentObjects({ params: { id: shop.stacks.prod.id }, query: {} })
  expect(objects).toHaveLength(2)
  const { logs } = await broker.admin.listAuditLogs({ query: { action: 'promotion.approved' } })
  expect(logs[0]).toMatchObject({ actor_type: 'admin', details: { namespace: shop.namespace } })
  const rolledBack = await run('pipeline', 'rollback', shop.name, '--to', 'prod')
  expect(rolledBack).toMatchObject({ code: 0, text: expect.stringMatching(/v1 into prod\nthe pipeline is held/) as unknown })
  expect(await shop.readHold()).toBe('true')
}, 240_000)

test('reject, retry, abort, promote, hold and release work by name and say why they refuse', async () => {
  const shop = await openShop()
  const target = `${shop.name}/prod`
  const refused = await Promise.all([
    run('pipeline', 'approve', target),
    run('pipeline', 'approve', 'nothing/prod'),
    run('pipeline', 'approve', `${shop.name}/stage`),
    run('pipeline', 'approve', shop.name),
    run('pipeline', 'hold', 'nothing'),
  ])
  expect(refused.map(({ code }) => code)).toEqual([5, 3, 3, 2, 3])
  expect(refused[0]?.text).toContain('no promotion awaits')
  expect(refused[2]?.text).toContain('dev, prod')

  await shop.submit('dev', 'v2')
  const number = await shop.awaitsApproval('v2')
  expect(await run('approve', target, '--revision', 'v9')).toMatchObject({ code: 5, text: expect.stringContaining('v2 waits') as unknown })
  expect(await run('reject', target, '--reason', 'no')).toMatchObject({ code: 0 })
  await shop.seesPhase(`${number} v2 Rejected`)
  expect((await run('pipeline', 'explain', shop.name)).text).toContain(`brokkr pipeline retry ${target}`)
  expect(await run('pipeline', 'retry', target)).toMatchObject({ code: 0, text: expect.stringContaining('is retried as') as unknown })
  await shop.seesPhase(`${number} v2 AwaitingApproval`)
  expect(await run('pipeline', 'abort', target)).toMatchObject({ code: 0 })
  await shop.seesPhase(`${number} v2 Aborted`)
  expect(await run('pipeline', 'abort', target)).toMatchObject({ code: 5, text: expect.stringContaining('promotion_conflict') as unknown })

  expect(await run('promote', shop.name, '--to', 'prod')).toMatchObject({
    code: 0,
    text: expect.stringContaining('v2 into prod') as unknown,
  })
  const next = Number(number) + 1
  await shop.seesPhase(`${next} v2 AwaitingApproval`)
  // The caller who started the run does not count as its approver.
  expect(await run('approve', target)).toMatchObject({ code: 4, text: expect.stringContaining('forbidden') as unknown })

  expect(await run('pipeline', 'hold', shop.name)).toMatchObject({ code: 0 })
  expect(await shop.readHold()).toBe('true')
  expect(await run('pipeline', 'release', shop.name)).toMatchObject({ code: 0 })
  expect(await shop.readHold()).toBe(undefined)
}, 240_000)
