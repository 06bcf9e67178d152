// Stacks, and how every agent stands to them.
import { ApiError } from '@brokkr/contract/error.ts'
import { createStack } from '../../actions/create-stack.ts'
import { deleteStack } from '../../actions/delete-stack.ts'
import { updateStack } from '../../actions/update-stack.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as agentStackStatus from '../../store/agent-stack-status.ts'
import * as stacks from '../../store/stacks.ts'
import * as wanted from '../../store/wanted.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'
import { marksOf } from './marks-of.ts'

const listMax = 10_000

export const handleListStacks: Handler<'listStacks', BrokerDeps> = ({ sql }, { query, principal }) =>
  stacks.list(sql, {
    name: query.name ?? null,
    generator_id: principal.kind === 'generator' ? principal.id : (query.pak_id ?? null),
    ...marksOf(query),
    limit: listMax,
  })

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

export const handleUpdate: Handler<'updateStack', BrokerDeps> = (deps, request) => {
  const { id, name, description, drift, generator_id, deleted_at } = request.body
  return updateStack(deps, { stackId: request.params.id, id, name, description, drift, generator_id, deleted_at, by: actorOf(request) })
}

export const handleDeleteStack: Handler<'deleteStack', BrokerDeps> = (deps, request) =>
  deleteStack(deps, { stackId: request.params.id, by: actorOf(request) })

export const handleGetStatus: Handler<'getStackStatus', BrokerDeps> = async ({ sql, config }, { params }) => {
  const [state] = await wanted.statesOf(sql, { stack_ids: [params.id] })
  const agents = await agentStackStatus.listOfStack(sql, {
    stack_id: params.id,
    stale_after_seconds: config.broker.agent_disconnect_after_seconds,
  })
  return { stack_id: params.id, desired_sequence_id: state?.sequence_id ?? null, agents }
}
