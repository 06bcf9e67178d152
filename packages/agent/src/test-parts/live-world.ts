// A whole agent as a process between a real API server that writes down every change and a real broker that can be made to
// answer wrongly on the way.
import type { StackId } from '@brokkr/contract/wire.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
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
import { type BrokerProxy, startBrokerProxy } from '@brokkr/testing/faults/broker-proxy.ts'
import { type AuditedCluster, type AuditedRequest, isDelete, isWrite } from '@brokkr/testing/servers/audited-cluster.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'

/** The shared cluster suffices for tests that do not count writes. */
export type LiveCluster = Pick<AuditedCluster, 'api' | 'namespace' | 'kubeconfigPath'> & Partial<Pick<AuditedCluster, 'writes'>>
export interface LiveWorld {
  readonly at: LiveCluster
  broker: TestBroker
  readonly proxy: BrokerProxy
  readonly tenant: TestGenerator
  readonly agent: TestAgent
  readonly label: string
  /** The agent's own namespace, and the one its stacks write to. */
  readonly own: string
  readonly namespace: string
  running: AgentProcess
  start(env?: Record<string, string>): Promise<AgentProcess>
  stack(): Promise<{ id: StackId }>
  submit(stackId: StackId, ...objects: readonly object[]): Promise<{ id: string; sequence_id: number }>
  /** Stacks of one ConfigMap each, named `<prefix>-<n>`, once they stand. */
  deploy(count: number, prefix?: string): Promise<{ id: StackId; name: string }[]>
  configMap(name: string, data?: Record<string, string>): object
  read(name: string): Promise<{ data?: Record<string, string>; metadata: { uid: string; resourceVersion: string } } | null>
  names(): Promise<string[]>
  status(stackId: StackId): Promise<{ phase: string | null; code: string | null; sequence_id: number | null } | undefined>
  reported(stackId: StackId, phase: string, sequence?: number): Promise<void>
  deletes(since?: number): Promise<AuditedRequest[]>
  writes(since?: number): Promise<AuditedRequest[]>
  readonly explain: () => string
  stop(): Promise<void>
}

/** Short intervals in the proportions of the real ones. */
export const quick = {
  BROKKR__AGENT__POLLING_INTERVAL: '0.5',
  BROKKR__AGENT__DIGEST_INTERVAL: '2',
  BROKKR__AGENT__RESYNC_INTERVAL: '3',
  BROKKR__AGENT__RECONNECT_MAX_SECONDS: '0.5',
}

export async function liveWorld(
  at: LiveCluster,
  env: Record<string, string> = {},
  brokerEnv: Record<string, string> = {},
): Promise<LiveWorld> {
  const broker = await startTestBroker({ env: brokerEnv })
  const proxy = await startBrokerProxy(broker.url)
  const tenant = await createGenerator(broker)
  const label = unique('env')
  const agent = await createAgent(broker, { labels: [label], generators: [tenant] })
  const [own, namespace] = [await at.namespace('agent'), await at.namespace('work')]
  const start = (more: Record<string, string> = {}) =>
    startTestAgent({ broker: proxy.url, agent, kubeconfigPath: at.kubeconfigPath, namespace: own, env: { ...quick, ...env, ...more } })
  const configMaps = `/api/v1/namespaces/${namespace}/configmaps`
  const explain = () => `agent: ${world.running.logTail(25)}\nbroker: ${world.broker.logTail(5)}`
  const ofAgent = async (since: number) => {
    if (at.writes === undefined) throw new Error('this cluster keeps no audit log: use auditedCluster')
    return (await at.writes({ since })).filter(isWrite)
  }
  const world: LiveWorld = {
    at,
    broker,
    proxy,
    tenant,
    agent,
    label,
    own,
    namespace,
    running: await start(),
    start,
    explain,
    stack: () => tenant.client.createStack({ body: { name: unique('stack'), generator_id: tenant.generator.id, labels: [label] } }),
    submit: (id, ...objects) =>
      tenant.client.createDeploymentObject({
        params: { id },
        body: { yaml_content: objects.map((object) => JSON.stringify(object)).join('\n---\n') },
      }),
    configMap: (name, data = {}) => ({ apiVersion: 'v1', kind: 'ConfigMap', metadata: { name, namespace }, data }),
    deploy: async (count, prefix = 'map') => {
      // Stacks one after the other: targeting takes one lock, which is waited for three seconds at most.
      const stacks: { id: StackId; name: string }[] = []
      for (let n = 0; n < count; n++) stacks.push({ ...(await world.stack()), name: `${prefix}-${n}` })
      await mapBounded(stacks, 8, ({ id, name }, n) => world.submit(id, world.configMap(name, { n: String(n) })))
      const isThere = async () => (await world.names()).filter((name) => name.startsWith(`${prefix}-`)).length === count
      await waitFor(`${count} objects`, isThere, { limitMs: 180_000, everyMs: 500, onTimeout: explain })
      for (const { id } of stacks) await world.reported(id, 'applied', 1)
      return stacks
    },
    read: async (name) => {
      const { status, json } = await at.api('GET', `${configMaps}/${name}`)
      return status === 200 ? (json as never) : null
    },
    names: async () => {
      const { json } = await at.api('GET', configMaps)
      return (json as { items: { metadata: { name: string } }[] }).items.map(({ metadata }) => metadata.name).toSorted()
    },
    status: async (id) => (await tenant.client.getStackStatus({ params: { id } })).agents[0],
    reported: async (id, phase, sequence) => {
      await waitFor(
        `status ${phase}${sequence === undefined ? '' : ` of sequence ${sequence}`}`,
        async () => {
          const status = await world.status(id)
          return status?.phase === phase && (sequence === undefined || status.sequence_id === sequence)
        },
        { limitMs: 120_000, onTimeout: async () => `${JSON.stringify(await world.status(id))}\n${explain()}` },
      )
    },
    deletes: async (since = 0) => (await ofAgent(since)).filter(isDelete),
    writes: (since = 0) => ofAgent(since),
    stop: async () => {
      await world.running.kill()
      await proxy.close()
      await world.broker.kill()
    },
  }
  return world
}
