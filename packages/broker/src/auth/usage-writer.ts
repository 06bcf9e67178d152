// Writes last use of PAKs and sessions in batches: one small update every few seconds instead of one per call.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import * as adminRole from '../admin/store/admin-role.ts'
import * as generators from '../generators/store/generators.ts'
import * as consoleSessions from './store/console-sessions.ts'

export interface UsageWriter {
  used(kind: 'admin' | 'agent' | 'generator' | 'session', id: string): void
  /** Writes the pending updates. */
  close(): Promise<void>
}

/** Ignores agents, whose heartbeats record their activity. */
export function createUsageWriter(
  deps: { sql: Sql; clock: Clock; log: Log },
  options: { flushMs: number; sessionIdleSeconds: number },
): UsageWriter {
  // A session must be renewed well before it counts as idle.
  const flushMs = Math.min(options.flushMs, (options.sessionIdleSeconds * 1000) / 4)
  const pendingIds = { admin: new Set<string>(), generator: new Set<string>(), session: new Set<string>() }
  let timer: { cancel(): void } | null = null
  let lastWrite: Promise<void> = Promise.resolve()
  const flush = (): Promise<void> => {
    timer?.cancel()
    timer = null
    const used = { admin: [...pendingIds.admin], generator: [...pendingIds.generator], session: [...pendingIds.session] }
    for (const ids of Object.values(pendingIds)) ids.clear()
    // A failed batch is dropped, because the next use writes the same columns.
    const logFailure = (error: unknown) => deps.log.debug('last use of credentials not written', { error: error as Error })
    lastWrite = lastWrite.then(() => write(deps.sql, used, options.sessionIdleSeconds)).catch(logFailure)
    return lastWrite
  }
  return {
    used: (kind, id) => {
      if (kind === 'agent') return
      pendingIds[kind].add(id)
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
