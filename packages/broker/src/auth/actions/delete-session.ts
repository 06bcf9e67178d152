// Ends a console session in every broker process.
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as consoleSessions from '../store/console-sessions.ts'

export async function deleteSession(deps: { sql: Sql; wakeFeed: () => void }, input: { id: string; actor: Actor }): Promise<void> {
  await deps.sql.begin(async (sql) => {
    // A concurrent sign-out already deleted the session.
    if ((await consoleSessions.remove(sql, { id: input.id })) === 0) return
    await recordAuditEntry(sql, { actor: input.actor, action: 'session.deleted', resource: { type: 'session', id: input.id } })
  })
  deps.wakeFeed()
}
