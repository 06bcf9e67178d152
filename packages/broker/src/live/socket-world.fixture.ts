// A generator with a stack and an agent that the stack targets, and the frames they exchange.
import { createAgent, createGenerator, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { runSql } from '@brokkr/testing/run-sql.ts'

export async function createSocketWorld(broker: TestBroker) {
  const tenant = await createGenerator(broker)
  const agent = await createAgent(broker, { generators: [tenant] })
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
  await tenant.client.addTarget({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, stack_id: stack.id } })
  const sender = { agent_id: agent.agent.id, stack_id: stack.id }
  const line = (text: string, more: object = {}) => ({
    ...sender,
    namespace: 'default',
    pod: 'web-1',
    container: 'web',
    ts: '2026-01-02T03:04:06Z',
    line: text,
    ...more,
  })
  const event = (status: string, message: string) => ({
    id: '00000000-0000-0000-0000-000000000000',
    agent_id: agent.agent.id,
    deployment_object_id: object.id,
    event_type: 'DEPLOY',
    status,
    message,
  })
  return { tenant, agent, stack, object, sender, line, event, livePath: `/api/v1/stacks/${stack.id}/live` }
}
export const agentPath = '/internal/ws/agent'
export const fleetPath = '/api/v1/fleet/live'

/** Whether a statement that contains the word waits for a lock. A transaction would read this once, so the connection is a new one. */
export async function isWaitingForLock(broker: TestBroker, word: string): Promise<boolean> {
  const text = `select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like $1`
  return (await runSql(broker.databaseUrl, text, [`%${word}%`])).length > 0
}
