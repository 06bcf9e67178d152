// Holds of stacks.
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import type { Handler } from '../../http/server/handler.ts'
import { holdStack, readHold } from '../actions/hold-stack.ts'
import { releaseStack } from '../actions/release-stack.ts'

export const handleHold: Handler<'holdStack', BrokerDeps> = (deps, request) => {
  const { sequence_id, reason } = request.body
  return holdStack(deps, { stackId: request.params.id, sequenceId: sequence_id ?? null, reason, actor: toActor(request) })
}

export const handleGet: Handler<'getHold', BrokerDeps> = ({ sql }, { params }) => readHold(sql, params.id)

export const handleRelease: Handler<'releaseStack', BrokerDeps> = (deps, request) =>
  releaseStack(deps, { stackId: request.params.id, reason: request.query.reason ?? null, actor: toActor(request) })
