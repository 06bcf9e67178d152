// Health: what agents report, and what is shown of a stack and of a revision.
import { recordHealth } from '../../actions/record-health.ts'
import type { BrokerDeps } from '../../deps.ts'
import { overallHealth } from '../../domain/overall-health.ts'
import * as deploymentHealth from '../../store/deployment-health.ts'
import type { Handler } from '../handler.ts'
import { actorOf } from './actor.ts'

const recordsMax = 1000

export const handleUpdate: Handler<'updateHealthStatus', BrokerDeps> = (deps, request) =>
  recordHealth(deps, { agentId: request.params.id, reports: request.body.deployment_objects, by: actorOf(request) })

export const handleOfObject: Handler<'getDeploymentHealth', BrokerDeps> = async ({ sql }, { params }) => {
  const records = await deploymentHealth.ofObject(sql, { deployment_object_id: params.id, limit: recordsMax })
  return { deployment_object_id: params.id, health_records: records, overall_status: overallHealth(records.map(({ status }) => status)) }
}

export const handleOfStack: Handler<'getStackHealth', BrokerDeps> = async ({ sql }, { params }) => {
  const rows = await deploymentHealth.ofStack(sql, { stack_id: params.id, limit: recordsMax })
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
