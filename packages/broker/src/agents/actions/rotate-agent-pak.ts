// Replaces the PAK of an agent. The old one is invalid after the commit and is dropped from the cache of every process. An agent may
// create the PAK itself and send only its short token and hash, so that the clear text never leaves the agent.
import type { Agent } from '@brokkr/contract/agents/agent.ts'
import { generatePak, type PakForm } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { type OwnPak, requireOwnPak, requireUniquePakHash } from '../../auth/actions/paks.ts'
import * as agents from '../store/agents.ts'

export interface RotateAgentPak {
  readonly agentId: string
  readonly short_token: string | undefined
  readonly pak_hash: string | undefined
  readonly actor: Actor
}
interface NewPak extends OwnPak {
  readonly pak: string | null
}

export async function rotateAgentPak(
  deps: { sql: Sql; wakeFeed: () => void; pakForm?: PakForm },
  input: RotateAgentPak,
): Promise<{ agent: Agent; pak: string | null }> {
  const { agentId: id } = input
  const newPak: NewPak = readOwnPak(input) ?? (await generatePak(deps.pakForm))
  const agent = await deps.sql.begin(async (sql) => {
    await requireUniquePakHash(sql, newPak.hash, id)
    const changed = await agents.setPak(sql, { id, pak_hash: newPak.hash, pak_short: newPak.short })
    if (changed === 0) throw new ApiError('agent_not_found', 'no such agent')
    await recordAuditEntry(sql, {
      actor: input.actor,
      action: 'pak.rotated',
      resource: { type: 'agent', id },
      details: { short_token: newPak.short },
    })
    return agents.get(sql, { id })
  })
  deps.wakeFeed()
  return { agent: agent!, pak: newPak.pak }
}

function readOwnPak({ short_token: short, pak_hash: hash }: RotateAgentPak): NewPak | null {
  if (short === undefined && hash === undefined) return null
  if (short === undefined || hash === undefined)
    throw new ApiError('invalid_request_body', 'short_token and pak_hash belong together: send both, or send neither to receive a new PAK')
  return { pak: null, ...requireOwnPak({ short_token: short, pak_hash: hash }) }
}
