// What fuzzed requests are about: tenants, agents, stacks and revisions that exist, and spare ones for requests that end them.
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError } from '@brokkr/contract/errors.ts'
import { createAgent, createGenerator, type TestAgent, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import type { CallerName } from '../../auth/permissions.fixture.ts'

export interface FuzzWorld {
  readonly broker: TestBroker
  readonly paks: Readonly<Record<CallerName, string>>
  readonly tenant: TestGenerator
  readonly otherTenant: TestGenerator
  readonly agent: TestAgent
  readonly otherAgent: TestAgent
  readonly stackIds: readonly string[]
  readonly objectIds: readonly string[]
  readonly templateId: string
  /** Has the label `l` and the annotation `k`. */
  readonly labeledTemplateId: string
  /** Of the first stack, which targets the agent. */
  readonly planId: string
  /** Of a stack of its own, so that no other report removes it. */
  readonly flowId: string
  readonly eventId: string
  /** A webhook that agents deliver, and something it was told. */
  readonly webhookId: string
  readonly deliveryId: string
  /** Work orders and diagnostic requests of the agent by state. */
  readonly work: AgentWork
  /** Any id of the world, of whatever kind. */
  readonly ids: readonly string[]
  readonly systemGeneratorId: string
  /** The id of something that may be ended. */
  spare(kind: Spare): Promise<string>
  /** Headers of a console session that may be ended. */
  session(): Promise<Record<string, string>>
  /** The header of a join token of its own. */
  joinToken(): Promise<Record<string, string>>
  /** The token of a sign-in link of its own. */
  linkToken(): Promise<string>
}
export interface AgentWork {
  readonly pendingOrder: string
  readonly claimedOrder: string
  readonly finishedOrder: string
  readonly pendingDiagnostic: string
  readonly claimedDiagnostic: string
}
export type Spare =
  | 'template'
  | 'agent'
  | 'generator'
  | 'stack'
  | 'submittedStack'
  | 'heldStack'
  | 'deletedStack'
  | 'adminPak'
  | 'invite'
  | 'webhook'

/** Whoever is told to come back comes back: changes of targets wait for each other, and a busy machine makes them wait too long. */
export async function makeFuzzWorld(broker: TestBroker): Promise<FuzzWorld> {
  for (;;) {
    const world = await makeOnce(broker).catch((error: unknown) => {
      if (error instanceof ApiError && error.status === 503) return null
      throw error
    })
    if (world !== null) return world
    await sleep(1_000)
  }
}

async function makeOnce(broker: TestBroker): Promise<FuzzWorld> {
  const [tenant, otherTenant] = [await createGenerator(broker), await createGenerator(broker)]
  const label = unique('l')
  const agent = await createAgent(broker, { generators: [tenant], labels: [label] })
  const otherAgent = await createAgent(broker, { generators: [otherTenant] })
  const reader = await broker.admin.createAdminPak({ body: { name: unique('reader'), readonly: true } })
  const webhook = await makeWebhook(broker, label)
  const stackIds: string[] = []
  const objectIds: string[] = []
  for (const n of [1, 2, 3]) {
    const stack = await tenant.client.createStack({ body: { name: unique(`s${n}`), generator_id: tenant.generator.id, labels: [label] } })
    const yaml_content = `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m${n}, namespace: default}\n`
    const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content } })
    stackIds.push(stack.id)
    objectIds.push(object.id)
  }
  const template = await createTemplate(tenant)
  // A template of its own: labels of a template must match those of the stack.
  const labeledTemplate = await createTemplate(tenant)
  await tenant.client.templatesAddLabel({ params: { id: labeledTemplate.id }, body: 'l' })
  await tenant.client.templatesAddAnnotation({ params: { id: labeledTemplate.id }, body: { key: 'k', value: 'v' } })
  const plan = await tenant.client.createPlan({ params: { id: stackIds[0] as never }, body: { yaml_content: 'a: 1' } })
  const eventBody = { agent_id: agent.agent.id, deployment_object_id: objectIds[0] ?? '', event_type: 'DEPLOY', status: 'SUCCESS' }
  const event = await agent.client.createEvent({ params: { id: agent.agent.id }, body: eventBody })
  const work = await makeWork(broker, agent, objectIds[0] ?? '')
  return {
    broker,
    paks: {
      admin: broker.adminPak,
      reader: reader.pak,
      owner: tenant.pak,
      foreignGenerator: otherTenant.pak,
      itself: agent.pak,
      foreignAgent: otherAgent.pak,
    },
    tenant,
    otherTenant,
    agent,
    otherAgent,
    stackIds,
    objectIds,
    templateId: template.id,
    labeledTemplateId: labeledTemplate.id,
    planId: plan.id,
    flowId: await makeFlow(tenant, agent, label),
    eventId: event.id,
    webhookId: webhook.id,
    deliveryId: await deliveryOf(broker, webhook.id),
    work,
    ids: [
      agent.agent.id,
      otherAgent.agent.id,
      tenant.generator.id,
      otherTenant.generator.id,
      ...stackIds,
      ...objectIds,
      event.id,
      template.id,
      reader.id,
      webhook.id,
    ],
    systemGeneratorId: await systemGeneratorOf(agent),
    spare: (kind) => spares[kind](broker, tenant),
    session: () => sessionOf(broker),
    linkToken: async () => (await broker.admin.createLoginLink({})).url.split('#')[1] ?? '',
    joinToken: async () => ({ authorization: `Join ${(await invite(broker, tenant)).token}` }),
  }
}

async function makeWork({ admin }: TestBroker, { agent, client }: TestAgent, objectId: string): Promise<AgentWork> {
  const body = { work_type: 'w', yaml_content: 'a: 1', targeting: { agent_ids: [agent.id] }, max_retries: 0 }
  const order = async () => (await admin.createWorkOrder({ body })).id
  const claimed = async () => (await client.claimWorkOrder({ params: { id: await order() }, body: { agent_id: agent.id } })).id
  const diagnostic = async () => (await admin.createDiagnosticRequest({ params: { id: objectId }, body: { agent_id: agent.id } })).id
  const finishedOrder = await claimed()
  await client.completeWorkOrder({ params: { id: finishedOrder }, body: { success: false } })
  return {
    pendingOrder: await order(),
    claimedOrder: await claimed(),
    finishedOrder,
    pendingDiagnostic: await diagnostic(),
    claimedDiagnostic: (await client.claimDiagnostic({ params: { id: await diagnostic() } })).id,
  }
}

async function makeFlow(tenant: TestGenerator, { agent, client }: TestAgent, label: string): Promise<string> {
  const stack = await tenant.client.createStack({ body: { name: unique('f'), generator_id: tenant.generator.id, labels: [label] } })
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
  const resources = [{ kind: 'DataFlow', name: 'f', namespace: 'default', ready: true, flow: { phase: 'Running', processed: 1 } }]
  const summary = { pods_ready: 1, pods_total: 1, conditions: [], resources }
  await client.updateHealthStatus({
    params: { id: agent.id },
    body: { deployment_objects: [{ id: object.id, status: 'healthy', checked_at: '2026-01-02T03:04:05Z', summary }] },
  })
  const [flow] = await tenant.client.listFlows({ query: { stack_id: stack.id } })
  return flow!.id
}

const spares: Record<Spare, (broker: TestBroker, tenant: TestGenerator) => Promise<string>> = {
  agent: async (broker, tenant) => (await createAgent(broker, { generators: [tenant] })).agent.id,
  generator: async (broker) => (await createGenerator(broker)).generator.id,
  stack: async (_, tenant) => (await tenant.client.createStack({ body: { name: unique('spare'), generator_id: tenant.generator.id } })).id,
  submittedStack: async (_, tenant) => submitStack(tenant),
  heldStack: async (_, tenant) => {
    const id = await submitStack(tenant)
    await tenant.client.holdStack({ params: { id }, body: { reason: 'r' } })
    return id
  },
  deletedStack: async (_, tenant) => {
    const id = await submitStack(tenant)
    await tenant.client.deleteStack({ params: { id } })
    return id
  },
  template: async (_, tenant) => (await createTemplate(tenant)).id,
  webhook: async (broker) => (await makeWebhook(broker, 'spare')).id,
  adminPak: async (broker) => (await broker.admin.createAdminPak({ body: { name: unique('spare') } })).id,
  invite: async (broker, tenant) => (await invite(broker, tenant)).id,
}

async function submitStack({ client, generator }: TestGenerator): Promise<string> {
  const { id } = await client.createStack({ body: { name: unique('spare'), generator_id: generator.id } })
  await client.createDeploymentObject({ params: { id }, body: { yaml_content: 'a: 1' } })
  return id
}

const createTemplate = ({ client }: TestGenerator) =>
  client.createTemplate({ body: { name: unique('t'), template_content: 'kind: {{ kind }}\n', parameters_schema: '{}' } })

const invite = (broker: TestBroker, { generator }: TestGenerator) =>
  broker.admin.createAgentInvite({ body: { labels: ['l'], annotations: { k: 'v' }, generator_ids: [generator.id], uses: 2 } })

const makeWebhook = (broker: TestBroker, label: string) =>
  broker.admin.createWebhook({
    body: { name: unique('hook'), url: 'https://example.com/', event_types: ['deployment.created'], target_labels: [label] },
  })

async function deliveryOf({ admin }: TestBroker, webhookId: string): Promise<string> {
  const [delivery] = await admin.listDeliveries({ params: { id: webhookId } })
  return delivery!.id
}

/** Every agent is registered with it. */
async function systemGeneratorOf({ agent, client }: TestAgent): Promise<string> {
  const registrations = await client.listAgentRegistrations({ params: { id: agent.id } })
  return registrations.at(-1)?.generator_id ?? ''
}

async function sessionOf({ url, adminPak }: TestBroker): Promise<Record<string, string>> {
  const headers = { authorization: adminPak, 'content-type': 'application/json' }
  const response = await fetch(`${url}/api/v1/auth/session`, { method: 'POST', headers, body: '{}' })
  const cookie = response.headers.get('set-cookie')?.split(';')[0] ?? ''
  return { cookie, origin: url, 'x-brokkr-console': '1' }
}
