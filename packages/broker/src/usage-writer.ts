// When a key was last used, written in batches: a busy key costs one small update every few seconds, not one per call.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import * as adminRole from './store/admin-role.ts'
import * as generators from './store/generators.ts'
import type { Sql } from './store/sql.ts'

export interface UsageWriter {
  used(kind: 'admin' | 'agent' | 'generator', id: string): void
  /** Writes what is left. */
  close(): Promise<void>
}

/** Agents tell of themselves by heartbeat. */
export function createUsageWriter(deps: { sql: Sql; clock: Clock; log: Log }, options: { flushMs: number }): UsageWriter {
  const waiting = { admin: new Set<string>(), generator: new Set<string>() }
  let timer: { cancel(): void } | null = null
  let writing: Promise<void> = Promise.resolve()
  const flush = (): Promise<void> => {
    timer?.cancel()
    timer = null
    const [admins, owners] = [[...waiting.admin], [...waiting.generator]]
    waiting.admin.clear()
    waiting.generator.clear()
    // A batch that fails is lost on purpose: the next use of the key writes the same.
    const lost = (error: unknown) => deps.log.debug('last use of keys was not written', { error: error as Error })
    writing = writing.then(() => write(deps.sql, admins, owners)).catch(lost)
    return writing
  }
  return {
    used: (kind, id) => {
      if (kind === 'agent') return
      waiting[kind].add(id)
      timer ??= deps.clock.setTimer(options.flushMs, () => void flush())
    },
    close: () => flush(),
  }
}

async function write(sql: Sql, admins: string[], owners: string[]): Promise<void> {
  if (admins.length > 0) await adminRole.touch(sql, { ids: admins })
  if (owners.length > 0) await generators.touch(sql, { ids: owners })
}
