// May this process be given work? The database must answer within a moment, and the feed must be read. Asked often, so the
// answer of the database is kept for two seconds.
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as health from './store/health.ts'
import type { Sql } from './store/sql.ts'

const [answerMs, keptMs] = [750, 2_000]

/** null: yes; else why not, in two words. */
export function createReadiness(deps: { sql: Sql; clock: Clock; feedTrouble: () => string | null }): () => Promise<string | null> {
  let kept: { answer: Promise<boolean>; atMs: number } | null = null
  return async () => {
    const nowMs = deps.clock.monotonicMs()
    if (kept === null || nowMs - kept.atMs > keptMs) kept = { answer: answers(deps), atMs: nowMs }
    return (await kept.answer) ? deps.feedTrouble() : 'database unavailable'
  }
}

async function answers({ sql, clock }: { sql: Sql; clock: Clock }): Promise<boolean> {
  const late = Promise.withResolvers<boolean>()
  const timer = clock.setTimer(answerMs, () => late.resolve(false))
  const asked = health.ping(sql, {}).then(
    () => true,
    () => false,
  )
  try {
    return await Promise.race([asked, late.promise])
  } finally {
    timer.cancel()
  }
}
