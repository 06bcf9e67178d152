// Webhooks that agents deliver, from an event at a real broker to a real receiver and back.
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { allowPrivateNetworks } from '@brokkr/runtime/http-client/address.ts'
import { createOutbound, type OutboundOptions } from '@brokkr/runtime/http-client/outbound-client.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { createAgent, createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { closeAfter } from '../test-parts/scripted-broker.ts'
import { deliveriesLoop } from './deliveries-loop.ts'

let broker: TestBroker
beforeAll(async () => {
  broker = await startTestBroker()
  return () => broker.kill()
})

async function startReceiver(): Promise<{ url: string; received: { headers: IncomingMessage['headers']; body: string }[] }> {
  const received: { headers: IncomingMessage['headers']; body: string }[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      received.push({ headers: request.headers, body: Buffer.concat(chunks).toString() })
      response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  closeAfter(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, received }
}

/** An agent whose label the webhook targets, and the event that the webhook is about. */
async function createDelivery(url: string) {
  const tenant = await createGenerator(broker)
  const label = unique('edge')
  const agent = await createAgent(broker, { generators: [tenant], labels: [label] })
  const webhook = await broker.admin.createWebhook({
    body: { name: unique('w'), url, auth_header: 'Bearer key', event_types: ['stack.created'], target_labels: [label] },
  })
  await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  const list = () => broker.admin.listDeliveries({ params: { id: webhook.id } })
  await waitFor('the delivery', async () => (await list()).length === 1)
  const deliver = async (allow: OutboundOptions['allow']) => {
    const outbound = createOutbound({}, { allow: allow ?? {}, schemes: ['https:', 'http:'] })
    closeAfter(() => outbound.close())
    const deps = { client: agent.client, agentId: agent.agent.id, outbound, check: () => undefined, clock, log, everyMs: 1_000 }
    const loop = deliveriesLoop(deps)
    await loop.run(AbortSignal.timeout(60_000))
    await loop.whenIdle()
    return (await list())[0]!
  }
  return { deliver }
}

test('an agent delivers a webhook that targets its label and reports the success', async () => {
  const { url, received } = await startReceiver()
  const { deliver } = await createDelivery(url)
  expect(await deliver({ classes: ['loopback'] })).toMatchObject({ status: 'success', attempts: 1, last_status_code: 204 })
  expect(received).toHaveLength(1)
  expect(received[0]?.headers).toMatchObject({ authorization: 'Bearer key', 'x-brokkr-event-type': 'stack.created' })
  expect(received[0]?.headers['webhook-signature']).toMatch(/^v1,/)
  expect(JSON.parse(received[0]?.body ?? '')).toMatchObject({ event_type: 'stack.created' })
})

test('[A44] a webhook to a metadata address is refused by the agent and retried by the broker', async () => {
  const { deliver } = await createDelivery('http://169.254.169.254/latest/canary')
  const delivery = await deliver(allowPrivateNetworks)
  expect(delivery).toMatchObject({ status: 'failed', attempts: 1 })
  expect(delivery.last_error).not.toContain('canary')
})
