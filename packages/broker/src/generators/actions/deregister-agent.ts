// Ends the registration of an agent with a generator. All targets of the generator's stacks on the agent end, explicit ones too.
// Deregistering an agent that is not registered succeeds.
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { changeAgent, lockAgent } from '../../targeting/actions/retarget.ts'
import * as registrations from '../store/registrations.ts'
import { registeredAgent } from './register-agent.ts'

export async function deregisterAgent(
  deps: { sql: Sql; wakeFeed: () => void },
  input: { generatorId: string; agentId: string | null; actor: Actor },
): Promise<void> {
  const agentId = registeredAgent(input)
  await deps.sql.begin(async (sql) => {
    await lockAgent(sql, agentId)
    const removed = await registrations.remove(sql, { agent_id: agentId, generator_id: input.generatorId })
    if (removed === 0) return undefined
    const details = { generator_id: input.generatorId }
    return sql.commitWith(
      (tx) => [
        recordAuditEntry(tx, { actor: input.actor, action: 'agent.deregistered', resource: { type: 'agent', id: agentId }, details }),
        changeAgent(tx, agentId, [], async () => undefined),
      ],
      () => undefined,
    )
  })
  deps.wakeFeed()
}
