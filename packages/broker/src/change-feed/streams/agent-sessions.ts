// Records in the database which agents are connected to this process, for other broker processes. Written in batches when agents
// connected or disconnected, refreshed before the rows expire, deleted at shutdown. A failed write is repeated with the next batch.

import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import * as agentSessions from '../../agents/store/agent-sessions.ts'

export interface AgentSessions {
  /** Called often. `changes` is a counter of connects and disconnects; writes only if it moved or a refresh is due. */
  tick(changes: number, agentIds: () => Iterable<string>): void
  stop(): Promise<void>
}
const refreshMs = 30_000

export function createAgentSessions(deps: { sql: Sql; clock: Clock; log: Log; processId: string }): AgentSessions {
  const { sql, clock, processId } = deps
  /** Connection time by agent, as last written. */
  let sessions: ReadonlyMap<string, string> = new Map()
  let writtenAtMs = clock.monotonicMs()
  let writtenChanges = 0
  let writing: Promise<void> | null = null

  const write = async (changes: number, connected: ReadonlyMap<string, string>) => {
    const closedIds = [...sessions.keys()].filter((id) => !connected.has(id))
    try {
      if (closedIds.length > 0) await agentSessions.remove(sql, { process: processId, agent_ids: closedIds })
      if (connected.size > 0)
        await agentSessions.refresh(sql, { process: processId, agent_ids: [...connected.keys()], since: [...connected.values()] })
      sessions = connected
      writtenChanges = changes
      writtenAtMs = clock.monotonicMs()
    } catch (error) {
      deps.log.debug('agent sessions not written', { error: error as Error })
    }
  }
  return {
    tick: (changes, agentIds) => {
      const isFresh = sessions.size === 0 || clock.monotonicMs() - writtenAtMs < refreshMs
      if (writing !== null || (changes === writtenChanges && isFresh)) return
      const now = new Date(clock.now()).toISOString()
      const connected = new Map([...agentIds()].map((id) => [id, sessions.get(id) ?? now]))
      writing = write(changes, connected).finally(() => {
        writing = null
      })
    },
    stop: async () => {
      await writing
      await agentSessions.removeProcess(sql, { process: processId }).catch(() => undefined)
    },
  }
}
