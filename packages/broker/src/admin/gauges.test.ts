// What a scrape of a real broker shows, under the names that dashboards know.
// long: waits for the task that counts
import { freePort } from '@brokkr/local/supervisor/free-ports.ts'
import { createAgent, createGenerator, startTestBroker, type TestAgent, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { beforeAll, expect, test } from 'vitest'

let broker: TestBroker
let metricsUrl: string
beforeAll(async () => {
  const port = await freePort()
  metricsUrl = `http://127.0.0.1:${port}/metrics`
  broker = await startTestBroker({ env: { BROKKR__METRICS__PORT: String(port) } })
  // Before anybody looks: counts are kept for ten seconds.
  await makeSomething()
  return () => broker.kill()
})
let agent: TestAgent['agent']
let stackId: string

async function makeSomething(): Promise<void> {
  const tenant = await createGenerator(broker)
  const made = await createAgent(broker, { generators: [tenant] })
  await made.client.recordHeartbeat({ params: { id: made.agent.id } })
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
  await broker.admin.addTarget({ params: { id: made.agent.id }, body: { agent_id: made.agent.id, stack_id: stack.id } })
  await broker.admin.removeTarget({ params: { id: made.agent.id, stack_id: stack.id } })
  agent = made.agent
  stackId = stack.id
}

test('with a port of their own metrics are there, and nowhere else', async () => {
  const response = await fetch(metricsUrl)
  expect([response.status, response.headers.get('content-type')]).toEqual([200, expect.stringContaining('version=0.0.4')])
  const elsewhere = await fetch(`${broker.url}/metrics`)
  expect(await elsewhere.text()).not.toContain('brokkr_')
})

test('counts, ages, the pool, each statement and each endpoint by its pattern', async () => {
  await expect
    .poll(async () => (await fetch(metricsUrl)).text(), { timeout: 60_000, interval: 1_000 })
    .toMatch(/^brokkr_deployment_objects_total 1$/m)
  const text = await (await fetch(metricsUrl)).text()
  for (const pattern of [
    /^brokkr_active_agents 1$/m,
    /^brokkr_stacks_total 1$/m,
    new RegExp(`^brokkr_agent_heartbeat_age_seconds\\{agent_id="${agent.id}",agent_name="${agent.name}"\\} [\\d.]+$`, 'm'),
    /^brokkr_db_pool\{state="idle"\} \d+$/m,
    /^brokkr_db_query_duration_seconds_count\{name="stacks\.\w+"\} [1-9]/m,
    /^brokkr_db_wait_seconds_count [1-9]/m,
    /^brokkr_event_loop_delay_seconds /m,
    /^brokkr_build_info\{version="[^"]+"\} 1$/m,
    /^brokkr_http_requests_total\{endpoint="\/api\/v1\/agents\/:id\/targets\/:id",method="DELETE",status="204"\} 1$/m,
  ])
    expect(text).toMatch(pattern)
  expect(text).not.toContain(stackId)
  const buckets = [...text.matchAll(/^brokkr_http_request_duration_seconds_bucket\{le="([^"]+)",endpoint="\/api\/v1\/stacks",/gm)].map(
    (match) => match[1],
  )
  expect(buckets).toEqual(['0.001', '0.005', '0.01', '0.025', '0.05', '0.1', '0.25', '0.5', '1', '2.5', '5', '10', '+Inf'])
})
