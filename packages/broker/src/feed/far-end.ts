// Finds streams whose far end has silently gone (a half-open connection): an agent that streams also sends heartbeats, so one
// that has not been heard of by database time is let go. A wrong guess costs one resume.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import * as agents from '../store/agents.ts'
import type { Sql } from '../store/sql.ts'
import type { AgentStream } from './agent-stream.ts'
import type { Registry } from './registry.ts'

export interface FarEndDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly registry: Registry<AgentStream>
  readonly trouble: () => string | null
}

export const farEndCheck = (deps: FarEndDeps, settings: { dead_seconds: number; far_end_check_seconds: number }): Loop => ({
  name: 'far-end-check',
  everyMs: settings.far_end_check_seconds * 1000,
  run: async () => {
    // While the reader is behind, the database may be too: then nobody is judged.
    if (deps.trouble() !== null) return { let_go: 0 }
    const oldestMs = deps.clock.monotonicMs() - settings.dead_seconds * 1000
    const old = deps.registry.all().filter((stream) => stream.openedAtMs < oldestMs)
    if (old.length === 0) return { let_go: 0 }
    const unheard = await agents.unheardAmong(deps.sql, {
      ids: [...new Set(old.map(({ agentId }) => agentId))],
      seconds: settings.dead_seconds,
    })
    const gone = new Set(unheard.map(({ id }) => id))
    for (const stream of old) if (gone.has(stream.agentId)) stream.abandon()
    return { let_go: gone.size }
  },
})
