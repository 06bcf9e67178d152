// Targets, stacks and registrations of an agent.

import type { BrokerDeps } from '../../deps.ts'
import * as registrations from '../../generators/store/registrations.ts'
import { toActor } from '../../http/request/actor.ts'
import { newestFirst, newestRegistered } from '../../http/response/list-order.ts'
import { page } from '../../http/response/paging.ts'
import type { Handler } from '../../http/server/handler.ts'
import * as stacks from '../../stacks/store/stacks.ts'
import { addTarget, removeTarget } from '../actions.ts'
import * as agentTargets from '../store/agent-targets.ts'

export const handleListTargets: Handler<'listTargets', BrokerDeps> = ({ sql }, request) =>
  page(request, newestFirst, {
    name: 'listTargets',
    cap: 10_000,
    read: ({ after: [after_at, after_id], limit }) =>
      agentTargets.list(sql, { agent_id: request.params.id, reason: request.query.reason, after_at, after_id, limit }),
  })

export const handleAddTarget: Handler<'addTarget', BrokerDeps> = (deps, request) =>
  addTarget(deps, {
    agentId: request.params.id,
    stackId: request.body.stack_id,
    bodyAgentId: request.body.agent_id,
    actor: toActor(request),
  })

export const handleRemoveTarget: Handler<'removeTarget', BrokerDeps> = (deps, request) =>
  removeTarget(deps, {
    agentId: request.params.id,
    stackId: request.params.stack_id,
    bodyAgentId: request.params.id,
    actor: toActor(request),
  })

export const handleStacks: Handler<'getAssociatedStacks', BrokerDeps> = ({ sql }, { params }) =>
  stacks.listOfAgent(sql, { agent_id: params.id })

export const handleRegistrations: Handler<'listAgentRegistrations', BrokerDeps> = ({ sql }, request) =>
  page(request, newestRegistered, {
    name: 'listAgentRegistrations',
    cap: 10_000,
    read: ({ after: [after_at, after_id], limit }) =>
      registrations.ofAgent(sql, { owner_id: request.params.id, after_at, after_id, limit }),
  })
