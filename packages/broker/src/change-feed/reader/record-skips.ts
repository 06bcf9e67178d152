// Records stacks whose content cannot be sent as failed in the status of their agents. The agent cannot report this itself, because
// it never receives the content.

import type { Sql } from '@brokkr/postgres'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import * as agentStackStatus from '../../reports/store/agent-stack-status.ts'
import type { Skip } from '../streams/frames.ts'

export interface SkippedStack {
  readonly agentId: string
  readonly skip: Skip
}

/** Never throws: the next start of the stream records the skips again. */
export async function recordSkips(deps: { sql: Sql; log: Log }, skipped: readonly SkippedStack[]): Promise<void> {
  if (skipped.length === 0) return
  const skips = skipped.map(({ agentId, skip }) => ({ agent_id: agentId, ...skip }))
  try {
    await agentStackStatus.recordSkips(deps.sql, { skips: JSON.stringify(skips) })
  } catch (error) {
    deps.log.warn('skipped stacks not recorded', { stacks: skips.length, error: error as Error })
  }
}
