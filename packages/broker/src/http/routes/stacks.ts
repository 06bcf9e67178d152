// Stacks, their labels, and how every agent stands to them.
import { ApiError } from '@brokkr/contract/error.ts'
import { createStack } from '../../actions/create-stack.ts'
import { deleteStack } from '../../actions/delete-stack.ts'
import { addStackLabel, removeStackLabel } from '../../actions/label-stack.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as agentStackStatus from '../../store/agent-stack-status.ts'
import * as labels from '../../store/labels.ts'
import * as stacks from '../../store/stacks.ts'
import * as wanted from '../../store/wanted.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

const listMax = 10_000

export const handleListStacks: Handler<'listStacks', BrokerDeps> = ({ sql }, { query, principal }) =>
  stacks.list(sql, { name: query.name ?? null, generator_id: principal.kind === 'generator' ? principal.id : null, limit: listMax })

export const handleCreateStack: Handler<'createStack', BrokerDeps> = (deps, request) => {
  const { name, description, generator_id, labels: wantedLabels, annotations, drift } = request.body
  return createStack(deps, {
    name,
    description,
    generatorId: generator_id,
    labels: wantedLabels ?? [],
    annotations: annotations ?? {},
    drift: drift ?? 'heal',
    by: actorOf(request),
  })
}

export const handleGetStack: Handler<'getStack', BrokerDeps> = async ({ sql }, { params }) => {
  const stack = await stacks.get(sql, { id: params.id })
  if (stack === null) throw new ApiError('stack_not_found', 'no such stack')
  return stack
}

export const handleDeleteStack: Handler<'deleteStack', BrokerDeps> = (deps, request) =>
  deleteStack(deps, { stackId: request.params.id, by: actorOf(request) })

export const handleListLabels: Handler<'stacksListLabels', BrokerDeps> = ({ sql }, { params }) =>
  labels.ofStack(sql, { stack_id: params.id })

export const handleAddLabel: Handler<'stacksAddLabel', BrokerDeps> = (deps, request) =>
  addStackLabel(deps, { stackId: request.params.id, label: request.body, by: actorOf(request) })

export const handleRemoveLabel: Handler<'stacksRemoveLabel', BrokerDeps> = (deps, request) =>
  removeStackLabel(deps, { stackId: request.params.id, label: request.params.label, by: actorOf(request) })

export const handleGetStatus: Handler<'getStackStatus', BrokerDeps> = async ({ sql, config }, { params }) => {
  const [state] = await wanted.statesOf(sql, { stack_ids: [params.id] })
  const agents = await agentStackStatus.listOfStack(sql, {
    stack_id: params.id,
    stale_after_seconds: config.broker.agent_disconnect_after_seconds,
  })
  return { stack_id: params.id, desired_sequence_id: state?.sequence_id ?? null, agents }
}
