// Reads what a person has approved: a revision that may delete more than the guard lets pass is tried again, and where removals
// of a list are held and some were approved, the list is asked for once more, because only it carries the number.
import type { Client } from '@brokkr/contract/client.ts'
import type { AgentId, StackId } from '@brokkr/contract/wire.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import type { WantedMap } from '../follow/wanted-map.ts'
import type { Follow } from '../follow.ts'
import type { PruneApprovals } from '../reconcile/prune-approvals.ts'
import type { Deployments } from './deployments.ts'
import { isNotServed } from './send-events.ts'

export interface ApprovalsDeps {
  readonly client: Client
  readonly agentId: AgentId
  readonly approvals: PruneApprovals
  readonly deployments: Pick<Deployments, 'look' | 'allowRemovals'>
  readonly map: WantedMap
  readonly follow: () => Pick<Follow, 'restart'> | null
  readonly log: Log
  readonly everyMs: number
}

export function approvalsLoop(deps: ApprovalsDeps): Loop {
  // The list is asked for once per approval: it stays open until the list is through, every new stream has us look again, and a
  // second request would cut off the list that carries the number, which the broker then counts as told.
  let asked: ReadonlySet<string> = new Set()
  return {
    name: 'approvals',
    everyMs: deps.everyMs,
    run: async (signal) => {
      try {
        const rows = await deps.client.listPruneApprovals({ params: { id: deps.agentId } }, { signal })
        for (const stackId of deps.approvals.take(rows)) deps.deployments.look(stackId as StackId)
        const removals = rows.flatMap((row) => (row.removals === null ? [] : { id: row.id, count: row.removals }))
        const open = removals.map(({ id }) => id)
        const isHeld = [...deps.map.levels.leaving.values()].some(({ decision }) => decision === 'held')
        const asksNow = isHeld && open.some((id) => !asked.has(id))
        if (asksNow) {
          // Known here as well: a list that carried the number may be cut off by this very question, and the broker tells it once.
          deps.deployments.allowRemovals(Math.max(...removals.map(({ count }) => count)))
          deps.follow()?.restart('approved')
        }
        asked = new Set(asksNow ? open : open.filter((id) => asked.has(id)))
      } catch (error) {
        signal.throwIfAborted()
        // A broker of the first version has no approvals, and so nothing that is held can be let go.
        if (!isNotServed(error)) deps.log.debug('approvals not read', { why: errorText(error) })
      }
    },
  }
}
