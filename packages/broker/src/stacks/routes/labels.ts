// Labels and annotations of stacks.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import type { Handler } from '../../http/server/handler.ts'
import * as annotations from '../../targeting/store/annotations.ts'
import * as labels from '../../targeting/store/labels.ts'
import { addStackAnnotation, removeStackAnnotation } from '../actions/annotate-stack.ts'
import { addStackLabel, removeStackLabel } from '../actions/label-stack.ts'

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
