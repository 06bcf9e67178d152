// Health: reports of agents, and the health of a stack and of a deployment object.

import type { HealthStatus } from '@brokkr/contract/health/deployment-health.ts'
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import type { Handler } from '../http/server/handler.ts'
import { recordHealth } from './actions.ts'
import * as deploymentHealth from './store.ts'

const recordsMax = 1000

export const handleUpdate: Handler<'updateHealthStatus', BrokerDeps> = (deps, request) =>
  recordHealth(deps, { agentId: request.params.id, reports: request.body.deployment_objects, actor: toActor(request) })

export const handleOfObject: Handler<'getDeploymentHealth', BrokerDeps> = async ({ sql }, { params }) => {
  const records = await deploymentHealth.listOfObject(sql, { deployment_object_id: params.id, limit: recordsMax })
  return { deployment_object_id: params.id, health_records: records, overall_status: overallHealth(records.map(({ status }) => status)) }
}

export const handleOfStack: Handler<'getStackHealth', BrokerDeps> = async ({ sql }, { params }) => {
  const rows = await deploymentHealth.countOfStack(sql, { stack_id: params.id, limit: recordsMax })
  const objects = [...Map.groupBy(rows, ({ id }) => id)].map(([id, counts]) => {
    const agentsThat = (status: string) => counts.find((row) => row.status === status)?.agents ?? 0
    return {
      id,
      status: overallHealth(counts.map(({ status }) => status)),
      healthy_agents: agentsThat('healthy'),
      degraded_agents: agentsThat('degraded'),
      failing_agents: agentsThat('failing'),
    }
  })
  return { stack_id: params.id, overall_status: overallHealth(objects.map(({ status }) => status)), deployment_objects: objects }
}

// Aggregates health states: the worst reported state, or unknown without reports.

const worstFirst = ['failing', 'degraded', 'healthy'] as const satisfies readonly HealthStatus[]

export const overallHealth = (statuses: readonly HealthStatus[]): HealthStatus =>
  worstFirst.find((status) => statuses.includes(status)) ?? 'unknown'
