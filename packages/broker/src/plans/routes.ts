// Plans: what a change would do on every targeted cluster.
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import { getPreparedManifest } from '../http/request/large-body.ts'
import type { Handler } from '../http/server/handler.ts'
import { createPlan, readPlan, reportPlanResult } from './actions.ts'
import { toPlanContext } from './rules.ts'
import * as plans from './store/plans.ts'

export const handleCreate: Handler<'createPlan', BrokerDeps> = (deps, request) => {
  const { yaml_content, sequence_id, is_deletion_marker } = request.body
  return createPlan(deps, {
    stackId: request.params.id,
    yamlContent: yaml_content ?? null,
    sequenceId: sequence_id ?? null,
    isDeletionMarker: is_deletion_marker,
    largeText: getPreparedManifest(request.body)?.text,
    validation: deps.config.broker.manifest_validation,
    actor: toActor(request),
  })
}

export const handleGet: Handler<'getPlan', BrokerDeps> = (deps, { params, query }) =>
  readPlan(deps, { planId: params.id, agentId: query.agent_id ?? null })

/** Contents have up to 8 MiB: the agent reads again after it has reported these. */
const [pendingMax, pendingBytesMax] = [10, 8 * 1024 * 1024]

export const handlePending: Handler<'listPendingPlans', BrokerDeps> = async ({ sql, seal }, { params }) => {
  const rows = await plans.listPending(sql, { agent_id: params.id, limit: pendingMax, bytes: pendingBytesMax })
  return rows.map(({ content_sealed, ...plan }) => ({ ...plan, yaml_content: seal.open(toPlanContext(plan.id), content_sealed) }))
}

export const handleResult: Handler<'reportPlanResult', BrokerDeps> = (deps, { params, body, principal }) =>
  reportPlanResult(deps, { planId: params.id, agentId: principal.id, result: body })
