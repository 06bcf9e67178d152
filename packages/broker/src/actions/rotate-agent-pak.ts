// Gives an agent a new key: the old one is dead with the commit, and every process lets go of it. An agent may make its key
// itself and send only what is stored of it; then no clear text ever leaves the agent.
import type { Agent } from '@brokkr/contract/agent.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { makePak, pakHashPattern, shortTokenPattern } from '@brokkr/contract/pak.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import * as agents from '../store/agents.ts'
import * as credentials from '../store/credentials.ts'
import type { Sql } from '../store/sql.ts'

export interface RotateAgentPak {
  readonly agentId: string
  readonly short_token: string | undefined
  readonly pak_hash: string | undefined
  readonly by: Actor
}
interface NewKey {
  readonly pak: string | null
  readonly short: string
  readonly hash: string
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
  const wrong = !shortTokenPattern.test(short)
    ? { path: 'short_token', message: 'is BR and six base58 characters' }
    : pakHashPattern.test(hash)
      ? null
      : { path: 'pak_hash', message: 'is the SHA-256 of the long part, in 64 lower-case hex digits' }
  if (wrong !== null) throw new ApiError('validation_failed', `${wrong.path} ${wrong.message}`, { details: { errors: [wrong] } })
  return { pak: null, short, hash }
}

/** A key opens one thing. That of an agent is also held by the database; an admin's or generator's is looked for here. */
async function refuseKnownHash(sql: Sql, hash: string, agentId: string): Promise<void> {
  const found = await credentials.findByHash(sql, { hash })
  if (found === null || found.id === agentId) return
  throw new ApiError('unique_violation', 'another key has this hash: make a new one', { details: { constraint: 'unique_agent_pak' } })
}
