// What fuzzed requests are about: tenants, agents, stacks and revisions that exist, and spare ones for requests that end them.
import { setTimeout as sleep } from 'node:timers/promises'
import { ApiError } from '@brokkr/contract/error.ts'
import { makeAgent, makeGenerator, type TestAgent, type TestBroker, type TestTenant, unique } from '@brokkr/testing/broker.ts'
import type { CallerName } from './permissions.fixture.ts'

export interface FuzzWorld {
  readonly broker: TestBroker
  readonly paks: Readonly<Record<CallerName, string>>
  readonly tenant: TestTenant
  readonly otherTenant: TestTenant
  readonly agent: TestAgent
  readonly otherAgent: TestAgent
  readonly stackIds: readonly string[]
  readonly objectIds: readonly string[]
  readonly eventId: string
  /** A webhook that agents deliver, and something it was told. */
  readonly webhookId: string
  readonly deliveryId: string
  /** Any id of the world, of whatever kind. */
  readonly ids: readonly string[]
  readonly systemGeneratorId: string
  /** The id of something that may be ended. */
  spare(kind: Spare): Promise<string>
  /** Headers of a console session that may be ended. */
  session(): Promise<Record<string, string>>
  /** The header of a join token of its own. */
  joinToken(): Promise<Record<string, string>>
}
export type Spare = 'agent' | 'generator' | 'stack' | 'adminPak' | 'invite' | 'webhook'

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
  const [tenant, otherTenant] = [await makeGenerator(broker), await makeGenerator(broker)]
  const label = unique('l')
  const agent = await makeAgent(broker, { generators: [tenant], labels: [label] })
  const otherAgent = await makeAgent(broker, { generators: [otherTenant] })
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
  const eventBody = { agent_id: agent.agent.id, deployment_object_id: objectIds[0] ?? '', event_type: 'DEPLOY', status: 'SUCCESS' }
  const event = await agent.client.createEvent({ params: { id: agent.agent.id }, body: eventBody })
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
    eventId: event.id,
    webhookId: webhook.id,
    deliveryId: await deliveryOf(broker, webhook.id),
    ids: [
      agent.agent.id,
      otherAgent.agent.id,
      tenant.generator.id,
      otherTenant.generator.id,
      ...stackIds,
      ...objectIds,
      event.id,
      reader.id,
      webhook.id,
    ],
    systemGeneratorId: await systemGeneratorOf(agent),
    spare: (kind) => spares[kind](broker, tenant),
    session: () => sessionOf(broker),
    joinToken: async () => ({ authorization: `Join ${(await invite(broker, tenant)).token}` }),
  }
}

const spares: Record<Spare, (broker: TestBroker, tenant: TestTenant) => Promise<string>> = {
  agent: async (broker, tenant) => (await makeAgent(broker, { generators: [tenant] })).agent.id,
  generator: async (broker) => (await makeGenerator(broker)).generator.id,
  stack: async (_, tenant) => (await tenant.client.createStack({ body: { name: unique('spare'), generator_id: tenant.generator.id } })).id,
  webhook: async (broker) => (await makeWebhook(broker, 'spare')).id,
  adminPak: async (broker) => (await broker.admin.createAdminPak({ body: { name: unique('spare') } })).id,
  invite: async (broker, tenant) => (await invite(broker, tenant)).id,
}

const invite = (broker: TestBroker, { generator }: TestTenant) =>
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
