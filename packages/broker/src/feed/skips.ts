// What could not be sent stands as failed in the status of everybody who should have got it, so that a person sees it: the agent
// itself cannot tell, for it never saw the content.
import type { Log } from '@brokkr/runtime/log.ts'
import * as agentStackStatus from '../store/agent-stack-status.ts'
import type { Sql } from '../store/sql.ts'
import type { Skip } from './frames.ts'

export interface SkippedStack {
  readonly agentId: string
  readonly skip: Skip
}

/** Never fails: the next start of a stream tells it again. */
export async function tellSkips(deps: { sql: Sql; log: Log }, skipped: readonly SkippedStack[]): Promise<void> {
  if (skipped.length === 0) return
  const skips = skipped.map(({ agentId, skip }) => ({ agent_id: agentId, ...skip }))
  try {
    await agentStackStatus.recordSkips(deps.sql, { skips: JSON.stringify(skips) })
  } catch (error) {
    deps.log.warn('content that could not be sent is not in the status yet', { stacks: skips.length, error: error as Error })
  }
}
