// Closes half-open streams. An agent with a stream also sends heartbeats, so the streams of an agent without a recent heartbeat (by
// database time) are closed. A wrong decision costs one resume.

import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import * as agents from '../../agents/store/agents.ts'
import type { FeedReader } from '../reader/reader.ts'
import type { Registry } from '../reader/registry.ts'
import type { AgentStream } from './agent-stream.ts'

export interface HalfOpenCheckDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly registry: Registry<AgentStream>
  readonly reader: Pick<FeedReader, 'getTrouble'>
}

export const closeHalfOpenStreams = (deps: HalfOpenCheckDeps, settings: { dead_seconds: number; far_end_check_seconds: number }): Loop => ({
  name: 'far-end-check',
  everyMs: settings.far_end_check_seconds * 1000,
  run: async () => {
    // While the reader is behind, heartbeats may be late too.
    if (deps.reader.getTrouble() !== null) return { let_go: 0 }
    const oldestMs = deps.clock.monotonicMs() - settings.dead_seconds * 1000
    const old = deps.registry.listSubscribers().filter((stream) => stream.openedAtMs < oldestMs)
    if (old.length === 0) return { let_go: 0 }
    const silent = await agents.unheardAmong(deps.sql, {
      ids: [...new Set(old.map(({ agentId }) => agentId))],
      seconds: settings.dead_seconds,
    })
    const silentIds = new Set(silent.map(({ id }) => id))
    for (const stream of old) if (silentIds.has(stream.agentId)) stream.destroy()
    return { let_go: silentIds.size }
  },
})
