// Revokes an invite: from the commit on nobody joins by it. Those that did stay; doing it twice is doing it once.
import { ApiError } from '@brokkr/contract/error.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import * as agentInvites from '../store/agent-invites.ts'
import type { Sql } from '../store/sql.ts'

export async function revokeAgentInvite(deps: { sql: Sql }, { id, by }: { id: string; by: Actor }): Promise<void> {
  await deps.sql.begin(async (sql) => {
    const invite = await agentInvites.get(sql, { id })
    if (invite === null) throw new ApiError('not_found', 'no such invite')
    if ((await agentInvites.revoke(sql, { id })) === 0) return
    const { short_token, uses_left } = invite
    await recordDeed(sql, { by, action: 'invite.revoked', on: { type: 'pak', id }, details: { short_token, uses_left } })
  })
}
