// Routes of stacks: stacks and their status per agent, labels, annotations, holds.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { ListedStack, Stack } from '@brokkr/contract/stacks/stack.ts'
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import { includesDeleted, toLabelFilter } from '../http/request/query.ts'
import { parsePrecondition, setEtag, withTag } from '../http/response/etag.ts'
import { byName } from '../http/response/list-order.ts'
import { estimateRowBytes, page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import * as agentStackStatus from '../reports/store/agent-stack-status.ts'
import * as annotations from '../targeting/store/annotations.ts'
import * as labels from '../targeting/store/labels.ts'
import { addStackAnnotation, removeStackAnnotation } from './actions/annotate-stack.ts'
import { holdStack, readHold, releaseStack } from './actions/holds.ts'
import { addStackLabel, removeStackLabel } from './actions/label-stack.ts'
import { createStack, deleteStack, updateStack } from './actions/stacks.ts'
import { undeleteStack } from './actions/undelete-stack.ts'
import * as stacks from './store/stacks.ts'

export const handleListStacks: Handler<'listStacks', BrokerDeps> = async ({ sql }, request) => {
  const { query, principal } = request
  const generator_id = principal.kind === 'generator' ? principal.id : (query.pak_id ?? null)
  const filter = { name: query.name ?? null, search: query.search ?? null, generator_id, ...toLabelFilter(query) }
  const counts = { health: query.health ?? null, drifted: query.drifted ?? null, held: query.held ?? null }
  if (query.include === 'status') {
    const counted = await page(request, byName, {
      name: 'listStacks',
      cap: 10_000,
      read: ({ after: [after_name, after_id], limit }) =>
        listing(request, generator_id).counted(sql, { ...filter, ...counts, after_name, after_id, limit }),
      bytesOf: (row) => estimateRowBytes(row),
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
    bytesOf: estimateRowBytes,
  })
}

function listing(request: Parameters<typeof includesDeleted>[0] & { query: { name?: string | undefined } }, generatorId: string | null) {
  if (includesDeleted(request)) return { plain: stacks.listWithDeleted, counted: stacks.countedListWithDeleted }
  if (request.query.name !== undefined) return { plain: stacks.listNamed, counted: stacks.countedListNamed }
  if (generatorId !== null) return { plain: stacks.listOwned, counted: stacks.countedListOwned }
  return { plain: stacks.list, counted: stacks.countedList }
}

function withStatus(row: stacks.CountedStack): ListedStack {
  const { desired_sequence_id, agents_total, agents_current, agents_failed, health, drifted, held, oldest_seen_at, ...stack } = row
  return { ...stack, status: { desired_sequence_id, agents_total, agents_current, agents_failed, health, drifted, held, oldest_seen_at } }
}

export const handleCreateStack: Handler<'createStack', BrokerDeps> = (deps, request) => {
  const { name, description, generator_id, labels: wantedLabels, annotations: wantedAnnotations, drift } = request.body
  return createStack(deps, {
    name,
    description,
    generatorId: generator_id,
    labels: wantedLabels ?? [],
    annotations: wantedAnnotations ?? {},
    drift: drift ?? 'heal',
    actor: toActor(request),
  })
}

export const handleGetStack: Handler<'getStack', BrokerDeps> = async (_, request) => withTag(request, request.found as Stack)

export const handleUpdate: Handler<'updateStack', BrokerDeps> = async (deps, request) => {
  const { id, name, description, drift, generator_id, deleted_at } = request.body
  const sent = { id, name, description, drift, generator_id, deleted_at }
  const change = { stackId: request.params.id, ...sent, precondition: parsePrecondition(request), actor: toActor(request) }
  return setEtag(request, await updateStack(deps, change))
}

export const handleDeleteStack: Handler<'deleteStack', BrokerDeps> = (deps, request) =>
  deleteStack(deps, { stackId: request.params.id, actor: toActor(request) })

export const handleUndelete: Handler<'undeleteStack', BrokerDeps> = async (deps, request) =>
  setEtag(request, await undeleteStack(deps, { stackId: request.params.id, actor: toActor(request) }))

export const handleGetStatus: Handler<'getStackStatus', BrokerDeps> = async ({ sql, config }, { params }) => {
  const none = { desired_sequence_id: null, held_sequence_id: null, newest_sequence_id: null }
  const sequences = await stacks.readSequences(sql, { id: params.id })
  const agents = await agentStackStatus.listOfStack(sql, {
    stack_id: params.id,
    stale_after_seconds: config.broker.agent_disconnect_after_seconds,
  })
  return { stack_id: params.id, ...(sequences ?? none), agents }
}

export const handleListLabels: Handler<'stacksListLabels', BrokerDeps> = ({ sql }, { params }) =>
  labels.ofStack(sql, { stack_id: params.id })

export const handleAddLabel: Handler<'stacksAddLabel', BrokerDeps> = (deps, request) =>
  addStackLabel(deps, { stackId: request.params.id, label: request.body, actor: toActor(request) })

export const handleRemoveLabel: Handler<'stacksRemoveLabel', BrokerDeps> = (deps, request) =>
  removeStackLabel(deps, { stackId: request.params.id, label: request.params.label, actor: toActor(request) })

export const handleListAnnotations: Handler<'stacksListAnnotations', BrokerDeps> = ({ sql }, { params }) =>
  annotations.ofStack(sql, { stack_id: params.id })

export const handleAddAnnotation: Handler<'stacksAddAnnotation', BrokerDeps> = async (deps, request) => {
  const { stack_id, key, value } = request.body
  if (stack_id !== request.params.id) throw new ApiError('stack_id_mismatch', 'stack_id in the body differs from the path')
  return addStackAnnotation(deps, { stackId: request.params.id, key, value, actor: toActor(request) })
}

export const handleRemoveAnnotation: Handler<'stacksRemoveAnnotation', BrokerDeps> = (deps, request) =>
  removeStackAnnotation(deps, { stackId: request.params.id, key: request.params.key, actor: toActor(request) })

export const handleHold: Handler<'holdStack', BrokerDeps> = (deps, request) => {
  const { sequence_id, reason } = request.body
  return holdStack(deps, { stackId: request.params.id, sequenceId: sequence_id ?? null, reason, actor: toActor(request) })
}

export const handleGet: Handler<'getHold', BrokerDeps> = ({ sql }, { params }) => readHold(sql, params.id)

export const handleRelease: Handler<'releaseStack', BrokerDeps> = (deps, request) =>
  releaseStack(deps, { stackId: request.params.id, reason: request.query.reason ?? null, actor: toActor(request) })
