// Gives an agent a new key: the old one is dead with the commit, and every process lets go of it. An agent may make its key
// itself and send only what is stored of it; then no clear text ever leaves the agent.
import type { Agent } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { makePak } from '@brokkr/contract/pak.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { type OwnKey, requireOwnKey } from '../domain/own-key.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'
import { refuseKnownHash } from './refuse-known-hash.ts'

export interface RotateAgentPak {
  readonly agentId: string
  readonly short_token: string | undefined
  readonly pak_hash: string | undefined
  readonly by: Actor
}
interface NewKey extends OwnKey {
  readonly pak: string | null
}

export async function rotateAgentPak(
  deps: { sql: Sql; wakeFeed: () => void },
  input: RotateAgentPak,
): Promise<{ agent: Agent; pak: string | null }> {
  const { agentId: id } = input
  const made: NewKey = ownKey(input) ?? (await makePak())
  const agent = await deps.sql.begin(async (sql) => {
    await refuseKnownHash(sql, made.hash, id)
    const changed = await agents.setPak(sql, { id, pak_hash: made.hash, pak_short: made.short })
    if (changed === 0) throw new ApiError('agent_not_found', 'no such agent')
    await recordDeed(sql, { by: input.by, action: 'pak.rotated', on: { type: 'agent', id }, details: { short_token: made.short } })
    return agents.get(sql, { id })
  })
  deps.wakeFeed()
  return { agent: agent!, pak: made.pak }
}

function ownKey({ short_token: short, pak_hash: hash }: RotateAgentPak): NewKey | null {
  if (short === undefined && hash === undefined) return null
  if (short === undefined || hash === undefined)
    throw new ApiError('invalid_request_body', 'short_token and pak_hash belong together: send both, or neither to be given a key')
  return { pak: null, ...requireOwnKey({ short_token: short, pak_hash: hash }) }
}
