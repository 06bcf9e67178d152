// Tells the other processes which agents are connected here: looked at now and then, written in batches when somebody came or went,
// refreshed before it counts as stale, taken back at the end. Nothing waits for it, and a failure is made up for by the next batch.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import * as agentSessions from '../store/agent-sessions.ts'
import type { Sql } from '../store/sql.ts'

export interface Sessions {
  /** Called often with a number that differs when somebody came or went, and who is connected; writes when there is something to say. */
  tick(changes: number, agentIds: () => Iterable<string>): void
  stop(): Promise<void>
}
const refreshMs = 30_000

export function createSessions(deps: { sql: Sql; clock: Clock; log: Log; processId: string }): Sessions {
  const { sql, clock, processId } = deps
  /** Agent → since when. */
  let written: ReadonlyMap<string, string> = new Map()
  let writtenAtMs = clock.monotonicMs()
  let writtenChanges = 0
  let writing: Promise<void> | null = null

  const write = async (changes: number, here: ReadonlyMap<string, string>) => {
    const gone = [...written.keys()].filter((id) => !here.has(id))
    try {
      if (gone.length > 0) await agentSessions.remove(sql, { process: processId, agent_ids: gone })
      if (here.size > 0) await agentSessions.refresh(sql, { process: processId, agent_ids: [...here.keys()], since: [...here.values()] })
      written = here
      writtenChanges = changes
      writtenAtMs = clock.monotonicMs()
    } catch (error) {
      deps.log.debug('sessions not written', { error: error as Error })
    }
  }
  return {
    tick: (changes, agentIds) => {
      const isFresh = written.size === 0 || clock.monotonicMs() - writtenAtMs < refreshMs
      if (writing !== null || (changes === writtenChanges && isFresh)) return
      const now = new Date(clock.now()).toISOString()
      const here = new Map([...agentIds()].map((id) => [id, written.get(id) ?? now]))
      writing = write(changes, here).finally(() => {
        writing = null
      })
    },
    stop: async () => {
      await writing
      await agentSessions.removeProcess(sql, { process: processId }).catch(() => undefined)
    },
  }
}
