// Approvals of removals that an agent's guard holds back.
import { approvePrune } from '../../actions/approve-prune.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as pruneApprovals from '../../store/prune-approvals.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

export const handleApprove: Handler<'approvePrune', BrokerDeps> = (deps, request) => {
  const { removals = null, stack_id: stackId = null, sequence_id: sequenceId = null } = request.body
  return approvePrune(deps, { agentId: request.params.id, removals, stackId, sequenceId, by: actorOf(request) })
}

export const handleList: Handler<'listPruneApprovals', BrokerDeps> = ({ sql }, { params }) =>
  pruneApprovals.listOpen(sql, { agent_id: params.id })
