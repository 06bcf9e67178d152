// Prune approvals: approve and list.

import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import type { Handler } from '../../http/server/handler.ts'
import { approvePrune } from '../actions/approve-prune.ts'
import * as pruneApprovals from '../store/prune-approvals.ts'

export const handleApprove: Handler<'approvePrune', BrokerDeps> = (deps, request) => {
  const { removals = null, stack_id: stackId = null, sequence_id: sequenceId = null } = request.body
  return approvePrune(deps, { agentId: request.params.id, removals, stackId, sequenceId, actor: toActor(request) })
}

export const handleList: Handler<'listPruneApprovals', BrokerDeps> = ({ sql }, { params }) =>
  pruneApprovals.listOpen(sql, { agent_id: params.id })
