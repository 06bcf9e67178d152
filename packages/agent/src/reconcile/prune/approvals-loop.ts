// Reads prune approvals. An approved deployment object is retried. For approved removals a new snapshot is requested, because only it
// carries the number.
import type { Client } from '@brokkr/contract/client.ts'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { BrokerSync } from '../../connection/broker-sync.ts'
import type { SyncState } from '../../desired-state/sync-state.ts'
import { isNotServed } from '../../reporting/send-events.ts'
import type { StackController } from '../stack-controller.ts'
import type { PruneApprovals } from './prune-approvals.ts'

export interface ApprovalsDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly approvals: PruneApprovals
  readonly controller: Pick<StackController, 'reconcile' | 'allowRemovals'>
  readonly state: SyncState
  readonly sync: Pick<BrokerSync, 'restart'>
  readonly log: Log
  readonly everyMs: number
}

export function approvalsLoop(deps: ApprovalsDeps): Loop {
  // Requested once per approval: the approval stays open until the snapshot is complete, and a second request would abort the snapshot
  // that carries the number.
  let requestedIds: ReadonlySet<string> = new Set()
  return {
    name: 'approvals',
    everyMs: deps.everyMs,
    run: async (signal) => {
      try {
        const rows = await deps.client.listPruneApprovals({ params: { id: deps.agentId } }, { signal })
        for (const stackId of deps.approvals.take(rows)) deps.controller.reconcile(stackId as StackId)
        const removals = rows.flatMap((row) => (row.removals === null ? [] : { id: row.id, count: row.removals }))
        const openIds = removals.map(({ id }) => id)
        const isHeld = [...deps.state.desired.removals.values()].some(({ decision }) => decision === 'held')
        const requestsNow = isHeld && openIds.some((id) => !requestedIds.has(id))
        if (requestsNow) {
          // Also recorded here: this request can abort a snapshot that carried the number, and the broker sends it once.
          deps.controller.allowRemovals(Math.max(...removals.map(({ count }) => count)))
          deps.sync.restart('approved')
        }
        requestedIds = new Set(requestsNow ? openIds : openIds.filter((id) => requestedIds.has(id)))
      } catch (error) {
        signal.throwIfAborted()
        // A v1 broker has no approvals.
        if (!isNotServed(error)) deps.log.debug('approvals not read', { why: errorText(error) })
      }
    },
  }
}
