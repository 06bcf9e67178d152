// How an agent's stacks stand, as it says: each row yields only to a newer report. With a digest the broker also tells
// whether what the agent holds is what it should hold.
import { ApiError } from '@brokkr/contract/error.ts'
import type { StackReport } from '@brokkr/contract/stream.ts'
import { digestOf } from '../domain/digest-of.ts'
import { type Cursor, type parseSnapshot } from '../feed/cursor.ts'
import * as agentStackStatus from '../store/agent-stack-status.ts'
import * as agents from '../store/agents.ts'
import * as changeLog from '../store/change-log.ts'
import type { Sql } from '../store/sql.ts'
import * as wanted from '../store/wanted.ts'

export interface StatusReport {
  readonly agentId: string
  readonly session: number
  readonly n: number
  readonly stacks: readonly StackReport[]
  readonly check: { readonly cursor: string; readonly count: number; readonly digest: string } | undefined
}
export type CheckResult = 'match' | 'moved' | 'mismatch'
const messageCharsMax = 4096

export async function recordStatus(
  deps: { sql: Sql; wakeFeed: () => void; readCursor: (text: string) => Cursor | null },
  report: StatusReport,
) {
  const reports = report.stacks.map((stack) => ({ ...stack, message: stack.message?.slice(0, messageCharsMax) ?? null }))
  const accepted =
    reports.length === 0
      ? []
      : await agentStackStatus.record(deps.sql, {
          agent_id: report.agentId,
          session: report.session,
          n: report.n,
          reports: JSON.stringify(reports),
        })
  await agents.touch(deps.sql, { agent_id: report.agentId })
  if (accepted.length > 0) deps.wakeFeed()
  const check = report.check === undefined ? {} : { check: await compareDigest(deps, report.agentId, report.check) }
  return { accepted: accepted.length, ignored: report.stacks.length - accepted.length, ...check }
}

/** One listing tells what should be there; only if it differs, and nothing newer than the cursor explains it, is it a mismatch. */
async function compareDigest(
  deps: { sql: Sql; readCursor: (text: string) => Cursor | null },
  agentId: string,
  check: NonNullable<StatusReport['check']>,
): Promise<CheckResult> {
  const cursor = deps.readCursor(check.cursor)
  if (cursor === null) throw new ApiError('bad_cursor', 'check.cursor is not a cursor of this broker')
  const listed = (await wanted.listForAgent(deps.sql, { agent_id: agentId })).filter((row) => row.kind === 'wanted')
  const { count, digest } = digestOf(listed)
  if (count === check.count && digest === check.digest) return 'match'
  const since = await changeLog.sinceForAgent(deps.sql, { agent_id: agentId, ...probesOf(cursor) })
  return since.some((row) => row.scope_kind !== null) ? 'moved' : 'mismatch'
}

/** A cursor as the two probes of the feed take it. */
export const probesOf = ({ snapshot }: { snapshot: ReturnType<typeof parseSnapshot> }) => ({
  xmax: String(snapshot.xmax),
  in_flight: snapshot.inFlight.map(String),
})
