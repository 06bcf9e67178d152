// Revocations are told by the feed at once; now and then every open stream is compared with the database all the same, so that a
// missed word costs minutes and not the life of a stream.
import type { Loop } from '@brokkr/runtime/loop.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'
import type { AgentStream } from './agent-stream.ts'
import type { Registry } from './registry.ts'

export const recheckKeys = (deps: { sql: Sql; registry: Registry<AgentStream> }, settings: { recheck_seconds: number }): Loop => ({
  name: 'recheck-keys',
  everyMs: settings.recheck_seconds * 1000,
  run: async () => {
    const open = deps.registry.all()
    if (open.length === 0) return { revoked: 0 }
    const rows = await agents.keyMarks(deps.sql, { ids: [...new Set(open.map(({ agentId }) => agentId))] })
    const marks = new Map(rows.map(({ id, key_mark }) => [id, key_mark]))
    const dead = open.filter(({ agentId, keyMark }) => (marks.get(agentId) ?? null) !== keyMark || keyMark === null)
    for (const stream of dead) stream.end('revoked', 0)
    return { revoked: dead.length }
  },
})
