// Readiness of this process: the database answers within 750 ms and the change feed is being read. Probes are frequent, so the result of
// the database check is reused for two seconds.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as health from './store/health.ts'

const [timeoutMs, maxAgeMs] = [750, 2_000]

/** null if ready, else a short reason. */
export function createReadiness(deps: { sql: Sql; clock: Clock; feedTrouble: () => string | null }): () => Promise<string | null> {
  let lastCheck: { answer: Promise<boolean>; atMs: number } | null = null
  return async () => {
    const nowMs = deps.clock.monotonicMs()
    if (lastCheck === null || nowMs - lastCheck.atMs > maxAgeMs) lastCheck = { answer: isDatabaseAnswering(deps), atMs: nowMs }
    return (await lastCheck.answer) ? deps.feedTrouble() : 'database unavailable'
  }
}

async function isDatabaseAnswering({ sql, clock }: { sql: Sql; clock: Clock }): Promise<boolean> {
  const timeout = Promise.withResolvers<boolean>()
  const timer = clock.setTimer(timeoutMs, () => timeout.resolve(false))
  const answer = health.ping(sql, {}).then(
    () => true,
    () => false,
  )
  try {
    return await Promise.race([answer, timeout.promise])
  } finally {
    timer.cancel()
  }
}
