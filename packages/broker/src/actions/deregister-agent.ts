// Ends the registration of an agent with a generator: the generator's stacks leave it, those aimed by hand too. An agent
// that is not registered counts as deregistered.
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import * as registrations from '../store/registrations.ts'
import type { Sql } from '../store/sql.ts'
import { registeredAgent } from './register-agent.ts'
import { lockTargeting, retarget } from './retarget.ts'

export async function deregisterAgent(
  deps: { sql: Sql; wakeFeed: () => void },
  input: { generatorId: string; agentId: string | null; by: Actor },
): Promise<void> {
  const agentId = registeredAgent(input)
  await deps.sql.begin(async (sql) => {
    await lockTargeting(sql)
    const removed = await registrations.remove(sql, { agent_id: agentId, generator_id: input.generatorId })
    if (removed === 0) return
    await retarget(sql, { agentId })
    await recordDeed(sql, {
      by: input.by,
      action: 'agent.deregistered',
      on: { type: 'agent', id: agentId },
      details: { generator_id: input.generatorId },
    })
  })
  deps.wakeFeed()
}
