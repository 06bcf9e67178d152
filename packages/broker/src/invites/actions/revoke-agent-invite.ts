// Revokes an invite: no agent can join by it after the commit. Agents that joined before stay. Idempotent.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as agentInvites from '../store.ts'

export async function revokeAgentInvite(deps: { sql: Sql }, { id, actor }: { id: string; actor: Actor }): Promise<void> {
  await deps.sql.begin(async (sql) => {
    const invite = await agentInvites.get(sql, { id })
    if (invite === null) throw new ApiError('not_found', 'no such invite')
    if ((await agentInvites.revoke(sql, { id })) === 0) return
    const { short_token, uses_left } = invite
    await recordAuditEntry(sql, { actor, action: 'invite.revoked', resource: { type: 'pak', id }, details: { short_token, uses_left } })
  })
}
