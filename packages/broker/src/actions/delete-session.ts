// A person signs out: the session ends in every process.
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import * as consoleSessions from '../store/console-sessions.ts'
import type { Sql } from '../store/sql.ts'

export async function deleteSession(deps: { sql: Sql; wakeFeed: () => void }, input: { id: string; by: Actor }): Promise<void> {
  await deps.sql.begin(async (sql) => {
    // Signed out twice at once: one of them did it.
    if ((await consoleSessions.remove(sql, { id: input.id })) === 0) return
    await recordDeed(sql, { by: input.by, action: 'session.deleted', on: { type: 'session', id: input.id } })
  })
  deps.wakeFeed()
}
