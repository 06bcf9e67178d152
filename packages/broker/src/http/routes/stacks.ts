// Stacks, and how every agent stands to them.
import { ApiError } from '@brokkr/contract/error.ts'
import { createStack } from '../../actions/create-stack.ts'
import { deleteStack } from '../../actions/delete-stack.ts'
import { updateStack } from '../../actions/update-stack.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as agentStackStatus from '../../store/agent-stack-status.ts'
import * as stacks from '../../store/stacks.ts'
import * as wanted from '../../store/wanted.ts'
import { preconditionOf, tagged, withTag } from '../etag.ts'
import type { Handler } from '../handler.ts'
import { byName } from '../list-order.ts'
import { bytesOfDescribed, page } from '../paging.ts'
import { actorOf } from './actor.ts'
import { marksOf } from './marks-of.ts'
import { seesDeleted } from './sees-deleted.ts'

export const handleListStacks: Handler<'listStacks', BrokerDeps> = ({ sql }, request) => {
  const { query, principal } = request
  const generator_id = principal.kind === 'generator' ? principal.id : (query.pak_id ?? null)
  const filter = { name: query.name ?? null, generator_id, ...marksOf(query) }
  return page(request, byName, {
    name: 'listStacks',
    cap: 10_000,
    read: ({ after: [after_name, after_id], limit }) => listing(request, generator_id)(sql, { ...filter, after_name, after_id, limit }),
    bytesOf: bytesOfDescribed,
  })
}

function listing(request: Parameters<typeof seesDeleted>[0] & { query: { name?: string | undefined } }, generatorId: string | null) {
  if (seesDeleted(request)) return stacks.listWithDeleted
  if (request.query.name !== undefined) return stacks.listNamed
  return generatorId === null ? stacks.list : stacks.listOwned
}

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

export const handleGetStack: Handler<'getStack', BrokerDeps> = async ({ sql }, request) => {
  const stack = await stacks.get(sql, { id: request.params.id, with_deleted: seesDeleted(request) })
  if (stack === null) throw new ApiError('stack_not_found', 'no such stack')
  return withTag(request, stack)
}

export const handleUpdate: Handler<'updateStack', BrokerDeps> = async (deps, request) => {
  const { id, name, description, drift, generator_id, deleted_at } = request.body
  const sent = { id, name, description, drift, generator_id, deleted_at }
  const change = { stackId: request.params.id, ...sent, precondition: preconditionOf(request), by: actorOf(request) }
  return tagged(request, await updateStack(deps, change))
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
