// Stacks, and how every agent stands to them.
import { ApiError } from '@brokkr/contract/error.ts'
import type { ListedStack, Stack } from '@brokkr/contract/stack.ts'
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

export const handleListStacks: Handler<'listStacks', BrokerDeps> = async ({ sql }, request) => {
  const { query, principal } = request
  const generator_id = principal.kind === 'generator' ? principal.id : (query.pak_id ?? null)
  const filter = { name: query.name ?? null, generator_id, ...marksOf(query) }
  const counts = { health: query.health ?? null, drifted: query.drifted ?? null, held: query.held ?? null }
  if (query.include === 'status') {
    const counted = await page(request, byName, {
      name: 'listStacks',
      cap: 10_000,
      read: ({ after: [after_name, after_id], limit }) =>
        listing(request, generator_id).counted(sql, { ...filter, ...counts, after_name, after_id, limit }),
      bytesOf: (row) => bytesOfDescribed(row),
    })
    return counted.map(withStatus)
  }
  if (Object.values(counts).some((asked) => asked !== null))
    throw new ApiError('invalid_query_parameter', 'health, drifted and held are read with include=status')
  return page(request, byName, {
    name: 'listStacks',
    cap: 10_000,
    read: ({ after: [after_name, after_id], limit }) =>
      listing(request, generator_id).plain(sql, { ...filter, after_name, after_id, limit }),
    bytesOf: bytesOfDescribed,
  })
}

function listing(request: Parameters<typeof seesDeleted>[0] & { query: { name?: string | undefined } }, generatorId: string | null) {
  if (seesDeleted(request)) return { plain: stacks.listWithDeleted, counted: stacks.countedListWithDeleted }
  if (request.query.name !== undefined) return { plain: stacks.listNamed, counted: stacks.countedListNamed }
  if (generatorId !== null) return { plain: stacks.listOwned, counted: stacks.countedListOwned }
  return { plain: stacks.list, counted: stacks.countedList }
}

function withStatus(row: stacks.CountedStack): ListedStack {
  const { desired_sequence_id, agents_total, agents_current, agents_failed, health, drifted, held, oldest_seen_at, ...stack } = row
  return { ...stack, status: { desired_sequence_id, agents_total, agents_current, agents_failed, health, drifted, held, oldest_seen_at } }
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

export const handleGetStack: Handler<'getStack', BrokerDeps> = async (_, request) => withTag(request, request.found as Stack)

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
