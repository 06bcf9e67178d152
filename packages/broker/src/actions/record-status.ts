// How an agent's stacks stand, as it says: each row yields only to a newer report. With a digest the broker also tells
// whether what the agent holds is what it should hold.
import { ApiError } from '@brokkr/contract/error.ts'
import type { StackReport } from '@brokkr/contract/stream.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { digestOf } from '../domain/digest-of.ts'
import { type Cursor, probesOf } from '../feed/cursor.ts'
import * as agentStackStatus from '../store/agent-stack-status.ts'
import * as agents from '../store/agents.ts'
import * as changeLog from '../store/change-log.ts'
import * as feedState from '../store/feed-state.ts'
import * as pruneApprovals from '../store/prune-approvals.ts'
import type { Sql } from '../store/sql.ts'
import * as wanted from '../store/wanted.ts'

export interface StatusReport {
  readonly agentId: string
  readonly session: number
  readonly n: number
  readonly stacks: readonly StackReport[]
  readonly check?: { readonly cursor: string; readonly count: number; readonly digest: string } | undefined
  /** The time of the last ping, by our own clock. */
  readonly echo?: number | undefined
}
export type CheckResult = 'match' | 'moved' | 'mismatch'
/** What the numbers of the broker are told. */
export interface StatusTold {
  checked(result: CheckResult): void
  nack(code: string): void
  propagated(stage: 'received' | 'applied', seconds: number): void
}
export interface StatusDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly wakeFeed: () => void
  readonly readCursor: (text: string) => Cursor | null
  readonly told: StatusTold
}
const messageCharsMax = 4096

export async function recordStatus(deps: StatusDeps, report: StatusReport) {
  // Checked first: a report whose cursor is none of ours is refused as a whole, and nothing of it is stored.
  const cursor = report.check === undefined ? null : cursorOf(deps, report.check.cursor)
  const accepted = await record(deps, report)
  await agents.touch(deps.sql, { agent_id: report.agentId })
  if (accepted.size > 0) deps.wakeFeed()
  if (report.echo !== undefined) deps.told.propagated('received', (deps.clock.now() - report.echo) / 2000)
  for (const { stack_id, phase, code } of report.stacks)
    if (accepted.has(stack_id) && (phase === 'failed' || phase === 'held')) deps.told.nack(code ?? 'none')
  const counts = { accepted: accepted.size, ignored: report.stacks.length - accepted.size }
  if (report.check === undefined || cursor === null) return counts
  const check = await compareDigest(deps.sql, report.agentId, report.check, cursor)
  deps.told.checked(check)
  return { ...counts, check }
}

function cursorOf({ readCursor }: Pick<StatusDeps, 'readCursor'>, text: string): Cursor {
  const cursor = readCursor(text)
  if (cursor === null) throw new ApiError('bad_cursor', 'check.cursor is not a cursor of this broker')
  return cursor
}

/** The stacks whose rows were written. */
async function record(deps: StatusDeps, { agentId, session, n, stacks }: StatusReport): Promise<ReadonlySet<string>> {
  if (stacks.length === 0) return new Set()
  const reports = stacks.map((stack) => ({ ...stack, message: stack.message?.slice(0, messageCharsMax) ?? null }))
  const rows = await agentStackStatus.record(deps.sql, { agent_id: agentId, session, n, reports: JSON.stringify(reports) })
  for (const { applied_seconds } of rows) if (applied_seconds !== null) deps.told.propagated('applied', applied_seconds)
  const accepted = new Set(rows.map((row) => row.stack_id))
  const applied = stacks.flatMap(({ stack_id, phase, object_id }) =>
    phase === 'applied' && accepted.has(stack_id) ? (object_id ?? []) : [],
  )
  if (applied.length > 0) await pruneApprovals.markApplied(deps.sql, { agent_id: agentId, object_ids: applied })
  return accepted
}

/** One instant tells what should be there; only if it differs, and nothing newer than the cursor explains it, is it a mismatch. */
function compareDigest(sql: Sql, agentId: string, check: NonNullable<StatusReport['check']>, cursor: Cursor): Promise<CheckResult> {
  return sql.begin(async (tx) => {
    await feedState.holdInstant(tx, {})
    const { epoch, boot } = cursor
    const listed = await wanted.listForAgent(tx, { agent_id: agentId, epoch, boot })
    const { count, digest } = digestOf(listed.filter((row) => row.kind === 'wanted'))
    if (count === check.count && digest === check.digest) return 'match'
    const since = await changeLog.sinceForAgent(tx, { agent_id: agentId, ...probesOf(cursor.snapshot) })
    // A cursor that says nothing about this log proves nothing: the agent reads everything again.
    const isKnown = since[0]?.epoch === cursor.epoch && cursor.snapshot.xmin >= BigInt(since[0].floor_xid)
    return isKnown && since.some((row) => row.scope_kind !== null) ? 'moved' : 'mismatch'
  })
}
