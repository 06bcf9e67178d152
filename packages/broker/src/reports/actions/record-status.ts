// Stores the status reports of an agent; a row is replaced only by a newer report. If the agent sends a digest, the response says whether
// it matches the desired state.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { StackReport } from '@brokkr/contract/feed/stream.ts'
import type { PendingCommit, Sql, Tx } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import * as agents from '../../agents/store/agents.ts'
import { type AuditEntry, recordAuditEntries } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { type Cursor, toSnapshotProbes } from '../../change-feed/reader/cursor.ts'
import * as changeLog from '../../change-feed/store/change-log.ts'
import * as feedState from '../../change-feed/store/feed-state.ts'
import { digestDesiredState } from '../../targeting/rules.ts'
import * as wanted from '../../targeting/store/desired-state.ts'
import * as agentStackStatus from '../store/agent-stack-status.ts'
import * as pruneApprovals from '../store/prune-approvals.ts'

export interface StatusReport {
  readonly agentId: string
  readonly actor: Actor
  readonly session: number
  readonly n: number
  readonly stacks: readonly StackReport[]
  readonly check?: { readonly cursor: string; readonly count: number; readonly digest: string } | undefined
  /** Broker time of the last ping that the agent received. */
  readonly echo?: number | undefined
}
export type CheckResult = 'match' | 'moved' | 'mismatch'
/** Metrics that a status report updates. */
export interface StatusMetrics {
  recordDigestCheck(result: CheckResult): void
  recordNack(code: string): void
  recordPropagation(stage: 'received' | 'applied', seconds: number): void
}
export interface StatusDeps {
  readonly sql: Sql
  readonly clock: Clock
  readonly wakeFeed: () => void
  readonly readCursor: (text: string) => Cursor | null
  readonly metrics: StatusMetrics
}
const messageCharsMax = 4096

export async function recordStatus(deps: StatusDeps, report: StatusReport) {
  // Checked first: a report with an invalid cursor is rejected before anything is stored.
  const cursor = report.check === undefined ? null : requireCursor(deps, report.check.cursor)
  const { acceptedIds, appliedSeconds } = await deps.sql.begin((sql) => record(sql, report))
  for (const seconds of appliedSeconds) deps.metrics.recordPropagation('applied', seconds)
  if (acceptedIds.size > 0) deps.wakeFeed()
  if (report.echo !== undefined) deps.metrics.recordPropagation('received', (deps.clock.now() - report.echo) / 2000)
  for (const { stack_id, phase, code } of report.stacks)
    if (acceptedIds.has(stack_id) && (phase === 'failed' || phase === 'held')) deps.metrics.recordNack(code ?? 'none')
  const counts = { accepted: acceptedIds.size, ignored: report.stacks.length - acceptedIds.size }
  if (report.check === undefined || cursor === null) return counts
  const check = await compareDigest(deps.sql, report.agentId, report.check, cursor)
  deps.metrics.recordDigestCheck(check)
  return { ...counts, check }
}

function requireCursor({ readCursor }: Pick<StatusDeps, 'readCursor'>, text: string): Cursor {
  const cursor = readCursor(text)
  if (cursor === null) throw new ApiError('bad_cursor', 'check.cursor is not a cursor of this broker')
  return cursor
}

interface StatusResult {
  /** Stacks whose rows were written. */
  readonly acceptedIds: ReadonlySet<string>
  readonly appliedSeconds: readonly number[]
}

/** Runs in the caller's transaction: statuses, used prune approvals and last_seen_at commit together. */
async function record(sql: Tx, { agentId: agent_id, actor, session, n, stacks }: StatusReport): Promise<PendingCommit<StatusResult>> {
  const reports = stacks.map((stack) => ({ ...stack, message: stack.message?.slice(0, messageCharsMax) ?? null }))
  const rows = stacks.length === 0 ? [] : await agentStackStatus.record(sql, { agent_id, session, n, reports: JSON.stringify(reports) })
  const acceptedIds = new Set(rows.map((row) => row.stack_id))
  const entries = rows.flatMap(({ stack_id, audit_action }) => (audit_action === null ? [] : [toEntry(actor, stack_id, audit_action)]))
  const object_ids = stacks.flatMap(({ stack_id, phase, object_id }) =>
    phase === 'applied' && acceptedIds.has(stack_id) ? (object_id ?? []) : [],
  )
  return sql.commitWith(
    (on) => [
      agents.touch(on, { agent_id }),
      object_ids.length === 0 ? Promise.resolve(0) : pruneApprovals.markUsedByApplied(on, { agent_id, object_ids }),
      entries.length === 0 ? Promise.resolve() : recordAuditEntries(on, entries),
    ],
    () => ({ acceptedIds, appliedSeconds: rows.flatMap((row) => row.applied_seconds ?? []) }),
  )
}

const toEntry = (actor: Actor, stackId: string, action: string): AuditEntry => ({
  actor,
  action,
  resource: { type: 'stack', id: stackId },
  details: { agent_id: actor.id },
})

/** Compares in one database snapshot. A difference is a mismatch only if no change after the cursor explains it. */
function compareDigest(sql: Sql, agentId: string, check: NonNullable<StatusReport['check']>, cursor: Cursor): Promise<CheckResult> {
  return sql.begin(async (tx) => {
    await feedState.useOneSnapshot(tx, {})
    const { epoch, boot } = cursor
    const rows = await wanted.listForAgent(tx, { agent_id: agentId, epoch, boot })
    const { count, digest } = digestDesiredState(rows.filter((row) => row.kind === 'wanted'))
    if (count === check.count && digest === check.digest) return 'match'
    const since = await changeLog.sinceForAgent(tx, { agent_id: agentId, ...toSnapshotProbes(cursor.snapshot) })
    // A cursor of another epoch or below the floor cannot explain a difference, so the agent must request a snapshot.
    const isKnown = since[0]?.epoch === cursor.epoch && cursor.snapshot.xmin >= BigInt(since[0].floor_xid)
    return isKnown && since.some((row) => row.scope_kind !== null) ? 'moved' : 'mismatch'
  })
}
