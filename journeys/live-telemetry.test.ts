// A pod's log line and the tree of its stack, from a real cluster through agent and broker to a reader.
import { randomUUID } from 'node:crypto'
import { appendFile } from 'node:fs/promises'
import { type AgentProcess, startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { cluster, type TestCluster } from '@brokkr/testing/servers/kube.ts'
import { nodes } from '@brokkr/testing/servers/nodes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

interface Frame {
  readonly type: string
  readonly body: Readonly<Record<string, unknown>>
}

let at: TestCluster
let broker: TestBroker
let tenant: TestGenerator
let running: AgentProcess
let stackId: string
let namespace: string
const linesPerSecond = 20
beforeAll(async () => {
  at = await cluster()
  await nodes(1)
  namespace = await at.namespace('logs')
  broker = await startTestBroker()
  tenant = await createGenerator(broker)
  const label = unique('l')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  running = await startTestAgent({
    broker,
    agent,
    kubeconfigPath: at.kubeconfigPath,
    namespace: await at.namespace('agent'),
    env: { BROKKR__AGENT__POD_LOG_LINES_PER_SECOND: String(linesPerSecond), BROKKR__AGENT__INVENTORY_INTERVAL: '0.5' },
  })
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  stackId = stack.id
  const labels = { app: 'web' }
  const template = {
    metadata: { labels, annotations: { 'brokkr.io/stream-logs': 'true' } },
    spec: { containers: [{ name: 'c', image: 'example.invalid/x' }] },
  }
  const deployment = {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { name: 'web', namespace },
    spec: { replicas: 1, selector: { matchLabels: labels }, template },
  }
  await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: JSON.stringify(deployment) } })
  return () => Promise.all([running.kill(), broker.kill()])
}, 300_000)

/** Opens the live tail as a browser does, with the PAK as a sub-protocol. */
async function openLiveTail(): Promise<{ frames: Frame[]; close: () => void }> {
  const url = `${broker.url.replace('http', 'ws')}/api/v1/stacks/${stackId}/live`
  const socket = new WebSocket(url, ['brokkr.v1', `brokkr.pak.${tenant.pak}`])
  const frames: Frame[] = []
  socket.addEventListener('message', ({ data }) => frames.push(JSON.parse(String(data)) as Frame))
  const opening = Promise.withResolvers<void>()
  socket.addEventListener('open', () => opening.resolve())
  socket.addEventListener('error', () => opening.reject(new Error('the live tail was refused')))
  await opening.promise
  return { frames, close: () => socket.close() }
}
const explain = () => `agent: ${running.logTail(15)}\nbroker: ${broker.logTail(5)}`
const writeLines = (texts: readonly string[]) =>
  appendFile(at.podLogPath, texts.map((text) => `${new Date().toISOString()} stdout F ${text}\n`).join(''))

test('the resource tree of a stack shows the Deployment and the pods it owns', async () => {
  const kinds = async () => {
    const [tree] = await tenant.client.getStackTree({ params: { id: stackId } })
    return new Set(tree?.nodes.map(({ kind }) => kind))
  }
  const hasAllKinds = async () => {
    const present = await kinds()
    return ['Deployment', 'ReplicaSet', 'Pod'].every((kind) => present.has(kind))
  }
  await waitFor('the tree', hasAllKinds, { limitMs: 120_000, onTimeout: explain })
}, 180_000)

test("a pod's log line reaches a live reader and is stored", async () => {
  const live = await openLiveTail()
  const word = randomUUID()
  // The agent follows the log from the moment it sees the pod run: earlier lines are not sent.
  const frame = await waitFor(
    'the line',
    async () => {
      await writeLines([word])
      return live.frames.find(({ type, body }) => type === 'pod_log_line' && String(body['line']).includes(word))
    },
    { limitMs: 120_000, everyMs: 500, onTimeout: explain },
  )
  expect(frame.body).toMatchObject({ stack_id: stackId, namespace, container: 'c' })
  const { lines } = await tenant.client.listTelemetryLogs({ params: { id: stackId }, query: { limit: 5000 } })
  expect(lines.some(({ line }) => line.includes(word))).toBe(true)
  live.close()
}, 180_000)

test('[A45] lines above the rate of a container are counted in a gap', async () => {
  const live = await openLiveTail()
  const word = randomUUID()
  const written = 10_000
  await writeLines(Array.from({ length: written }, (_, n) => `${word} ${n}`))
  const shown = () => live.frames.filter(({ type, body }) => type === 'pod_log_line' && String(body['line']).includes(word)).length
  const dropped = () =>
    live.frames.reduce(
      (sum, { type, body }) => sum + (type === 'log_gap' && body['reason'] === 'rate_limit' ? Number(body['dropped_count']) : 0),
      0,
    )
  await waitFor('lines and gaps', () => shown() + dropped() >= written, {
    limitMs: 60_000,
    onTimeout: () => `${shown()} shown, ${dropped()} dropped\n${explain()}`,
  })
  expect(shown()).toBeGreaterThan(0)
  expect(shown()).toBeLessThan(written / 2)
  live.close()
}, 120_000)
