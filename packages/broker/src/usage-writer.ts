// When a key or session was last used, written in batches: a busy one costs one small update every few seconds, not one per call.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import * as adminRole from './store/admin-role.ts'
import * as consoleSessions from './store/console-sessions.ts'
import * as generators from './store/generators.ts'
import type { Sql } from './store/sql.ts'

export interface UsageWriter {
  used(kind: 'admin' | 'agent' | 'generator' | 'session', id: string): void
  /** Writes what is left. */
  close(): Promise<void>
}

/** Agents tell of themselves by heartbeat. */
export function createUsageWriter(
  deps: { sql: Sql; clock: Clock; log: Log },
  options: { flushMs: number; sessionIdleSeconds: number },
): UsageWriter {
  // A session must be renewed well before it would be found idle.
  const flushMs = Math.min(options.flushMs, (options.sessionIdleSeconds * 1000) / 4)
  const waiting = { admin: new Set<string>(), generator: new Set<string>(), session: new Set<string>() }
  let timer: { cancel(): void } | null = null
  let writing: Promise<void> = Promise.resolve()
  const flush = (): Promise<void> => {
    timer?.cancel()
    timer = null
    const used = { admin: [...waiting.admin], generator: [...waiting.generator], session: [...waiting.session] }
    for (const ids of Object.values(waiting)) ids.clear()
    // A batch that fails is lost on purpose: the next use of the key writes the same.
    const lost = (error: unknown) => deps.log.debug('last use of keys was not written', { error: error as Error })
    writing = writing.then(() => write(deps.sql, used, options.sessionIdleSeconds)).catch(lost)
    return writing
  }
  return {
    used: (kind, id) => {
      if (kind === 'agent') return
      waiting[kind].add(id)
      timer ??= deps.clock.setTimer(flushMs, () => void flush())
    },
    close: () => flush(),
  }
}

async function write(sql: Sql, used: Record<'admin' | 'generator' | 'session', string[]>, idleSeconds: number): Promise<void> {
  if (used.admin.length > 0) await adminRole.touch(sql, { ids: used.admin })
  if (used.generator.length > 0) await generators.touch(sql, { ids: used.generator })
  if (used.session.length > 0) await consoleSessions.touch(sql, { ids: used.session, idle_seconds: idleSeconds })
}
