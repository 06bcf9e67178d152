// The whole way of many objects: submitted to a broker, streamed to the agent as it ships, applied. From the first submission until the
// cluster holds the record that the last stack is completely applied, beside the bare loop of dry runs and applies alone, interleaved on one
// API server. Only those records are watched meanwhile, one per stack: a watch of every object would cost the servers what the bare loop
// does not pay. That each object has its value is looked up afterwards.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadKubeconfig, openKube, textAt } from '@brokkr/kube'
import { startTestAgent } from '@brokkr/testing/agent.ts'
import { createAgent, createGenerator, startTestBroker, type TestGenerator } from '@brokkr/testing/broker.ts'
import type { PrivateCluster } from '@brokkr/testing/servers/kube.ts'
import { agentEnv, agentFlags, bundleAgent } from '../../scripts/bundle-agent.mjs'
import { readCpuNs } from '../cpu.ts'
import { percentile, tell } from '../figures.ts'
import { configMapText } from '../kube/objects.ts'
import { bareLoop } from './throughput.ts'

interface Size {
  readonly objects: number
  readonly stacks: number
  readonly rounds: number
}

export async function wholeWay(plane: PrivateCluster, dir: string, size: Size): Promise<void> {
  const caFile = join(dir, 'ca.crt')
  writeFileSync(caFile, plane.caPem)
  // Warm-up: otherwise the first side would include the start of the server.
  await bareLoop(plane, caFile, await plane.namespace('warm'), { objects: Math.ceil(size.objects / 5), value: 'a' })
  const broker = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  const tenant = await createGenerator(broker)
  const agent = await createAgent(broker, { labels: ['bench'], generators: [tenant] })
  const own = await plane.namespace('agent')
  const running = await startTestAgent({
    broker,
    agent,
    kubeconfigPath: plane.kubeconfigPath,
    namespace: own,
    env: { BROKKR__LOG__LEVEL: 'info', BROKKR__AGENT__LEASE_SECONDS: '15', ...agentEnv },
    program: { main: await bundleAgent(join(dir, 'bundle')), nodeFlags: agentFlags },
  })
  const took: Record<Side, number[]> = { ours: [], bare: [], oursChange: [], bareChange: [] }
  const pids = { servers: Object.values(plane.pids()), agent: [running.pid], broker: [broker.pid] }
  const cpu: Record<Side, ReturnType<typeof readCpu>[]> = { ours: [], bare: [], oursChange: [], bareChange: [] }
  const count = async (side: Side, work: () => Promise<number>) => {
    const before = readCpu(pids)
    took[side].push(await work())
    cpu[side].push(since(before, readCpu(pids)))
  }
  for (let round = 0; round < size.rounds; round++) {
    const namespaces = { ours: await plane.namespace('ours'), bare: await plane.namespace('bare') }
    const stackIds = await makeStacks(tenant, size.stacks, round)
    const ours = (value: string) => secondsOfOurs(plane, tenant, { ...size, own, namespace: namespaces.ours, stackIds, value })
    const bare = (value: string) => bareLoop(plane, caFile, namespaces.bare, { objects: size.objects, value })
    // Alternates the order: the later side works on a server with more objects.
    const first = [() => count('ours', () => ours('a')), () => count('bare', () => bare('a'))]
    const change = [() => count('oursChange', () => ours('b')), () => count('bareChange', () => bare('b'))]
    for (const pair of [first, change]) for (const one of round % 2 === 0 ? pair : pair.toReversed()) await one()
  }
  const formatSide = (of: Side) => {
    const seconds = percentile(took[of], 0.5)
    const busy = (who: keyof typeof pids) =>
      percentile(
        cpu[of].map((each) => each[who]),
        0.5,
      ).toFixed(1)
    return `${seconds.toFixed(1)} s · ${(size.objects / seconds).toFixed(0)}/s · CPU of servers ${busy('servers')} s, agent ${busy('agent')} s, broker ${busy('broker')} s`
  }
  const ratio = (over: Side, under: Side) => {
    const quotients = took[over].map((seconds, round) => seconds / took[under][round]!)
    return `${(percentile(took[over], 0.5) / percentile(took[under], 0.5)).toFixed(2)} · round by round ${quotients.map((each) => each.toFixed(2)).join(', ')}`
  }
  tell(`submission of ${size.objects} in ${size.stacks} stacks → all applied`, formatSide('ours'))
  tell('bare loop, dry run + apply of as many', formatSide('bare'))
  tell('whole way / bare loop, first apply (bar 0.8)', ratio('bare', 'ours'))
  tell('submission of a change of every object → all applied', formatSide('oursChange'))
  tell('bare loop, the same change', formatSide('bareChange'))
  tell('whole way / bare loop, change (bar 0.8)', ratio('bareChange', 'oursChange'))
  await running.stop()
  await broker.stop()
}

type Side = 'ours' | 'bare' | 'oursChange' | 'bareChange'

const sumCpuSeconds = (pids: readonly number[]): number => pids.reduce((sum, pid) => sum + readCpuNs(pid), 0) / 1e9
const readCpu = (pids: Record<'servers' | 'agent' | 'broker', readonly number[]>) => ({
  servers: sumCpuSeconds(pids.servers),
  agent: sumCpuSeconds(pids.agent),
  broker: sumCpuSeconds(pids.broker),
})
const since = (before: ReturnType<typeof readCpu>, now: ReturnType<typeof readCpu>): typeof before => ({
  servers: now.servers - before.servers,
  agent: now.agent - before.agent,
  broker: now.broker - before.broker,
})

async function makeStacks(tenant: TestGenerator, stacks: number, round: number): Promise<string[]> {
  const ids: string[] = []
  for (let n = 0; n < stacks; n++) {
    const body = { name: `whole-${round}-${n}`, generator_id: tenant.generator.id, labels: ['bench'] }
    ids.push((await tenant.client.createStack({ body })).id)
  }
  return ids
}

interface Submission {
  readonly objects: number
  /** Where the agent keeps its records. */
  readonly own: string
  readonly namespace: string
  readonly stackIds: readonly string[]
  readonly value: string
}

async function secondsOfOurs(plane: PrivateCluster, tenant: TestGenerator, given: Submission): Promise<number> {
  const { namespace, stackIds, value } = given
  const perStack = given.objects / stackIds.length
  const texts = stackIds.map((_, stack) =>
    Array.from({ length: perStack }, (__, n) => configMapText(namespace, stack * perStack + n, value)).join('\n---\n'),
  )
  const recorded = await followRecords(plane, given.own)
  const startedMs = performance.now()
  const submit = async (id: string, stack: number) =>
    (await tenant.client.createDeploymentObject({ params: { id }, body: { yaml_content: texts[stack]! } })).id
  await recorded(await Promise.all(stackIds.map(submit)))
  const seconds = (performance.now() - startedMs) / 1000
  await checkValues(plane, given)
  return seconds
}

/** Returns a function that waits until the records name all of these objects as completely applied. */
async function followRecords(plane: PrivateCluster, own: string): Promise<(objectIds: readonly string[]) => Promise<void>> {
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: process.env }))
  const inForce = new Set<string>()
  const open = Promise.withResolvers<void>()
  let onRecord = () => undefined as void
  const following = (async () => {
    const records = kube.watch({ apiVersion: 'v1', kind: 'Secret' }, { namespace: own, onOpen: open.resolve })
    for await (const { object } of records) {
      const state = Buffer.from(textAt(object, 'data', 'state.json') ?? '', 'base64').toString()
      inForce.add(/"deployment_object_id":"([^"]+)"/.exec(state)?.[1] ?? '')
      onRecord()
    }
  })().catch(() => undefined)
  await open.promise
  return async (objectIds) => {
    await new Promise<void>((resolve) => {
      onRecord = () => void (objectIds.every((id) => inForce.has(id)) && resolve())
      onRecord()
    })
    await kube.close()
    await following
  }
}

async function checkValues(plane: PrivateCluster, { namespace, objects, value }: Submission): Promise<void> {
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: process.env }))
  const { items } = await kube.list({ apiVersion: 'v1', kind: 'ConfigMap' }, { namespace })
  await kube.close()
  const right = items.filter(({ data }) => data?.['value'] === value).length
  if (right !== objects) throw new Error(`${right} of ${objects} objects have the value that was submitted`)
}
