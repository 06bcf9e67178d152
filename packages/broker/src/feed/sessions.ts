// Tells the other processes which agents are connected here: written in batches when somebody came or went, refreshed now and then,
// taken back at the end. Nothing waits for it, and a failure is made up for by the next batch.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import * as agentSessions from '../store/agent-sessions.ts'
import type { Sql } from '../store/sql.ts'

export interface Sessions {
  opened(agentId: string): void
  closed(agentId: string): void
  /** Called often; writes only when there is something to say. */
  tick(): void
  stop(): Promise<void>
}
const refreshMs = 30_000

export function createSessions(deps: { sql: Sql; clock: Clock; log: Log; processId: string }): Sessions {
  const { sql, clock, processId } = deps
  const open = new Map<string, { streams: number; readonly since: string }>()
  const gone = new Set<string>()
  let isDirty = false
  let writtenAtMs = clock.monotonicMs()
  let writing: Promise<void> | null = null

  const write = async () => {
    const [left, here] = [[...gone], [...open]]
    gone.clear()
    isDirty = false
    writtenAtMs = clock.monotonicMs()
    try {
      if (left.length > 0) await agentSessions.remove(sql, { process: processId, agent_ids: left })
      const [agent_ids, since] = [here.map(([id]) => id), here.map(([, { since: at }]) => at)]
      if (here.length > 0) await agentSessions.refresh(sql, { process: processId, agent_ids, since })
    } catch (error) {
      for (const id of left) if (!open.has(id)) gone.add(id)
      isDirty = true
      deps.log.debug('sessions not written', { error: error as Error })
    }
  }
  return {
    opened: (agentId) => {
      const known = open.get(agentId)
      if (known === undefined) open.set(agentId, { streams: 1, since: new Date(clock.now()).toISOString() })
      else known.streams += 1
      gone.delete(agentId)
      isDirty = true
    },
    closed: (agentId) => {
      const known = open.get(agentId)
      if (known === undefined || (known.streams -= 1) > 0) return
      open.delete(agentId)
      gone.add(agentId)
      isDirty = true
    },
    tick: () => {
      const isDue = isDirty || (open.size > 0 && clock.monotonicMs() - writtenAtMs >= refreshMs)
      if (!isDue || writing !== null) return
      writing = write().finally(() => {
        writing = null
      })
    },
    stop: async () => {
      await writing
      await agentSessions.removeProcess(sql, { process: processId }).catch(() => undefined)
    },
  }
}
