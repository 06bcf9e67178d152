// Work from the API to a real cluster and back: a custom order with its output, a Shipwright build, and diagnostics of a stack.
import { randomUUID } from 'node:crypto'
import { appendFile } from 'node:fs/promises'
import { type AgentProcess, startTestAgent } from '@brokkr/testing/agent.ts'
import {
  createAgent,
  createGenerator,
  startTestBroker,
  type TestAgent,
  type TestBroker,
  type TestGenerator,
  unique,
} from '@brokkr/testing/broker.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { nodes } from '@brokkr/testing/servers/nodes.ts'
import { buildRuns, endRun, installShipwright } from '@brokkr/testing/shipwright.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'

let at: TestCluster
let broker: TestBroker
let tenant: TestGenerator
let agent: TestAgent
let running: AgentProcess
let namespace: string
const label = unique('l')
beforeAll(async () => {
  at = await cluster()
  await nodes(1)
  await installShipwright(at)
  namespace = await at.namespace('work')
  broker = await startTestBroker()
  tenant = await createGenerator(broker)
  agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  running = await startTestAgent({ broker, agent, kubeconfigPath: at.kubeconfigPath, namespace: await at.namespace('agent') })
  return () => Promise.all([running.kill(), broker.kill()])
}, 300_000)

const explain = () => `agent: ${running.logTail(15)}\nbroker: ${broker.logTail(5)}`
const soon = <T>(what: string, probe: () => Promise<T | undefined>) => waitFor(what, probe, { limitMs: 120_000, onTimeout: explain })
const finished = (id: string) =>
  soon('the end of the order', async () => {
    const order = await broker.admin.getWorkOrder({ params: { id } })
    return order.status === 'COMPLETED' || order.status === 'FAILED' ? order : undefined
  })

/** Writes a line to the log of all played pods until the test ends, so that it is near the end of the log when the agent reads it. */
function keepWriting(word: string): void {
  const write = () => void appendFile(at.podLogPath, `${new Date().toISOString()} stdout F ${word}\n`)
  write()
  const timer = setInterval(write, 200)
  onTestFinished(() => clearInterval(timer))
}

test('a custom order runs its Job in the cluster, and its output and result are readable', async () => {
  const word = randomUUID()
  keepWriting(word)
  const job = {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { name: 'migrate', namespace },
    spec: { backoffLimit: 0, template: { spec: { restartPolicy: 'Never', containers: [{ name: 'c', image: 'example.invalid/x' }] } } },
  }
  const { id } = await broker.admin.createWorkOrder({
    body: { work_type: 'custom', yaml_content: JSON.stringify(job), targeting: { labels: [label] } },
  })
  expect(await finished(id)).toMatchObject({ status: 'COMPLETED', claimed_by: agent.agent.id })
  expect((await at.api('GET', `/apis/batch/v1/namespaces/${namespace}/jobs/migrate`)).status).toBe(200)
  const entry = await broker.admin.getWorkOrderLog({ params: { id } })
  expect(entry).toMatchObject({ success: true, result_message: '1 job completed' })
  const output = await broker.admin.getWorkOrderOutput({ params: { id } })
  expect(output.finished).toBe(true)
  expect(output.text).toContain('== migrate-')
  expect(output.text).toContain(word)
}, 180_000)

test('a build order runs its BuildRun, and its image digest is the result', async () => {
  const build = { apiVersion: 'shipwright.io/v1beta1', kind: 'Build', metadata: { name: 'app', namespace }, spec: {} }
  const { id } = await broker.admin.createWorkOrder({
    body: { work_type: 'build', yaml_content: JSON.stringify(build), targeting: { agent_ids: [agent.agent.id] } },
  })
  // Plays the controller of Shipwright, which cannot run here: it ends every BuildRun that has no status.
  const digest = `sha256:${'b'.repeat(64)}`
  const ending = (async () => {
    const run = await soon('the BuildRun', async () => (await buildRuns(at, namespace)).find(({ status }) => status === undefined))
    await endRun(at, namespace, run.metadata.name, { conditions: [{ type: 'Succeeded', status: 'True' }], output: { digest } })
  })()
  expect(await finished(id)).toMatchObject({ status: 'COMPLETED' })
  await ending
  expect(await broker.admin.getWorkOrderLog({ params: { id } })).toMatchObject({ success: true, result_message: digest })
}, 180_000)

test('diagnostics of a deployment object come from its pods and are readable', async () => {
  const word = randomUUID()
  keepWriting(word)
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const labels = { app: 'sick' }
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'sick', namespace },
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers: [{ name: 'c', image: 'example.invalid/x' }] } },
    },
  }
  const object = await tenant.client.createDeploymentObject({
    params: { id: stack.id },
    body: { yaml_content: JSON.stringify(deployment) },
  })
  await soon('a running pod', async () => {
    const pods = (await at.api('GET', `/api/v1/namespaces/${namespace}/pods?labelSelector=app=sick`)).json as {
      items: { status: { phase: string } }[]
    }
    return pods.items.some(({ status }) => status.phase === 'Running') || undefined
  })
  const { id } = await broker.admin.createDiagnosticRequest({ params: { id: object.id }, body: { agent_id: agent.agent.id } })
  const result = await soon('the result', async () => (await broker.admin.getDiagnostic({ params: { id } })).result ?? undefined)
  const [pod] = JSON.parse(result.pod_statuses) as { name: string; phase: string }[]
  expect(pod).toMatchObject({ phase: 'Running', name: expect.stringMatching(/^sick-/) as string })
  expect(result.log_tails).toContain(word)
  expect((await broker.admin.getDiagnostic({ params: { id } })).request.status).toBe('completed')
}, 180_000)
