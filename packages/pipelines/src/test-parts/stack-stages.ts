// A Pipeline over stacks of a real broker: a generator with one stack per environment, agents that report what they applied.
import { createServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createOutbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import { createAgent, createGenerator, type TestAgent, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { onTestFinished } from 'vitest'
import { createBrokerClients } from '../stacks/broker-clients.ts'
import { stackStrategy } from '../strategies/stack.ts'
import type { Call, Decision } from './api-proxy.ts'
import { openPipeline, type Server } from './world.ts'

export const STACK = { apiVersion: 'brokkr.io/v1', kind: 'Stack' }

export const configMap = (value: string): string =>
  `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: shop\n  namespace: default\ndata:\n  value: ${value}\n`

/** The strategy and the clients that it shares with the observer. */
export function openStackStrategy() {
  const outbound = createOutbound({}, { allow: { cidrs: ['127.0.0.0/8'] } })
  const brokers = createBrokerClients({ operators: outbound, users: outbound })
  return { brokers, strategy: stackStrategy({ brokers, brokerUrl: null }), close: () => outbound.close() }
}

/** Stands before a broker and loses requests or answers as `decide` says. Its address. */
export async function openBrokerProxy(
  target: string,
  decide: (call: Call & { readonly idempotencyKey: string }) => Decision,
  onEnd: (close: () => void) => void = onTestFinished,
): Promise<string> {
  const proxy = createServer((from, to) => {
    const call = { method: from.method ?? '', path: from.url ?? '', idempotencyKey: String(from.headers['idempotency-key']) }
    const decision = decide(call)
    const { fate, onFault } = typeof decision === 'string' ? { fate: decision, onFault: () => {} } : decision
    const lose = () => {
      onFault()
      from.socket.destroy()
    }
    if (fate === 'before') return lose()
    const onward = httpRequest(target + from.url, { method: from.method, headers: from.headers }, (answer) => {
      if (fate === 'after') answer.resume().on('end', lose)
      else answer.pipe(to.writeHead(answer.statusCode ?? 502, answer.headers))
    })
    onward.on('error', () => to.destroy())
    from.pipe(onward)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  onEnd(() => {
    proxy.closeAllConnections()
    proxy.close()
  })
  return `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`
}

/** Of the stack in a submission's path; null: another request. */
export const submittedStackOf = ({ method, path }: Call): string | null =>
  method === 'POST' ? (/\/stacks\/([^/]+)\/deployment-objects$/.exec(path)?.[1] ?? null) : null

export async function openStackStages(
  server: Server,
  broker: TestBroker,
  options: { agents?: number; mode?: 'Copy' | 'Marker'; url?: string; promotion?: object; manifest?: (environment: string) => string } = {},
) {
  const tenant = await createGenerator(broker)
  const namespace = await server.plane.namespace()
  const label = unique('label')
  const names = { dev: unique('dev'), prod: unique('prod') }
  const createStack = (name: string) => tenant.client.createStack({ body: { name, generator_id: tenant.generator.id, labels: [label] } })
  const stacks = { dev: await createStack(names.dev), prod: await createStack(names.prod) }
  const agents: TestAgent[] = []
  for (let count = 0; count < (options.agents ?? 1); count++)
    agents.push(await createAgent(broker, { labels: [label], generators: [tenant] }))
  const secretRef = { name: 'broker' }
  await server.kube.create({
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace, name: secretRef.name },
    data: { pak: Buffer.from(tenant.pak).toString('base64') },
  })
  const pipeline = await openPipeline(
    server,
    {
      appRef: { ...STACK, name: 'shop' },
      environments: (['dev', 'prod'] as const).map((name) => ({ name, targets: [{ namespace: '', stack: names[name] }] })),
      promotion: { strategy: { stack: { mode: options.mode ?? 'Copy', secretRef, url: options.url ?? broker.url } }, ...options.promotion },
    },
    { namespace },
  )
  const listObjects = (environment: 'dev' | 'prod') =>
    tenant.client.listDeploymentObjects({ params: { id: stacks[environment].id }, query: {} })
  let reports = 0
  return {
    ...pipeline,
    tenant,
    agents,
    stacks,
    listObjects,
    /** Keeps the reports of the agents fresh. */
    beat: async () => {
      for (const { agent, client } of agents) await client.recordHeartbeat({ params: { id: agent.id } })
    },
    submit: (environment: 'dev' | 'prod', manifest: string) =>
      tenant.client.createDeploymentObject({ params: { id: stacks[environment].id }, body: { yaml_content: manifest } }),
    /** An agent reports that it applied the head of a stack, healthy. */
    async apply(environment: 'dev' | 'prod', { agent, client }: TestAgent = agents[0]!) {
      const [head] = await listObjects(environment)
      const report = {
        stack_id: stacks[environment].id,
        rev: head!.sequence_id,
        object_id: head!.id,
        phase: 'applied' as const,
        observed_at: new Date().toISOString(),
      }
      await client.reportStatus({ params: { id: agent.id }, body: { session: 1, n: ++reports, stacks: [report] } })
      const health = { id: head!.id, status: 'healthy' as const, checked_at: new Date().toISOString() }
      await client.updateHealthStatus({ params: { id: agent.id }, body: { deployment_objects: [health] } })
      await client.recordHeartbeat({ params: { id: agent.id } })
    },
  }
}
