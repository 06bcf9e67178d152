// Health of deployed objects, as agents observe it in their clusters.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { FlowReport } from '../flows/flow-report.ts'
import { AgentId, byId, DeploymentObjectId, StackId, Timestamp, Uuid } from '../wire.ts'

export const HealthStatus = z.enum(['healthy', 'degraded', 'failing', 'unknown'])
export type HealthStatus = z.output<typeof HealthStatus>

/** A list of resources that has as many may be cut. */
export const resourcesMax = 100
/** Longest summary as JSON. */
export const healthSummaryBytesMax = 64 * 1024

const HealthSummary = z.object({
  pods_ready: z.int(),
  pods_total: z.int(),
  conditions: z.array(z.string()),
  resources: z
    .array(
      z.object({
        kind: z.string(),
        name: z.string(),
        namespace: z.string(),
        ready: z.boolean(),
        message: z.string().nullable().optional(),
        /** Of a DataFlow or DataFlowCron. */
        flow: FlowReport.optional(),
      }),
    )
    .nullable()
    .optional(),
  progressing: z.boolean().nullable().optional(),
  /** The list of resources was cut: what it omits may exist. */
  truncated: z.boolean().nullable().optional(),
})

export type HealthSummary = z.output<typeof HealthSummary>

/** Latest report of one agent on one deployment object; the summary is JSON in a string. */
export const DeploymentHealth = z.object({
  id: Uuid,
  agent_id: AgentId,
  deployment_object_id: DeploymentObjectId,
  status: HealthStatus,
  summary: z.string().nullable(),
  checked_at: Timestamp,
  created_at: Timestamp,
  updated_at: Timestamp,
})
export type DeploymentHealth = z.output<typeof DeploymentHealth>

export const HealthReport = z.object({
  id: DeploymentObjectId,
  // Any text: the broker rejects unknown values with an own error code.
  status: z.string(),
  summary: HealthSummary.nullable().optional(),
  checked_at: Timestamp,
})
export type HealthReport = z.output<typeof HealthReport>

export const updateHealthStatus = endpoint({
  method: 'PATCH',
  path: '/api/v1/agents/{id}/health-status',
  summary: 'Report the health of deployment objects; an older check never replaces a newer one',
  params: byId(AgentId),
  body: z.object({ deployment_objects: z.array(HealthReport).max(1000) }),
  success: 200,
  errors: ['agent_not_found', 'agent_pak_mismatch', 'invalid_health_record', 'agent_not_associated', 'foreign_key_violation'],
})

export const getStackHealth = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/health',
  summary: 'Read the health of a stack over its deployment objects and agents; unknown for an unknown stack',
  params: byId(StackId),
  success: 200,
  response: z.object({
    stack_id: StackId,
    overall_status: HealthStatus,
    deployment_objects: z.array(
      z.object({
        id: DeploymentObjectId,
        status: HealthStatus,
        healthy_agents: z.int(),
        degraded_agents: z.int(),
        failing_agents: z.int(),
      }),
    ),
  }),
})

export const getDeploymentHealth = endpoint({
  method: 'GET',
  path: '/api/v1/deployment-objects/{id}/health',
  summary: 'Read the health of a deployment object per agent; unknown for an unknown object',
  params: byId(DeploymentObjectId),
  success: 200,
  response: z.object({
    deployment_object_id: DeploymentObjectId,
    health_records: z.array(DeploymentHealth),
    overall_status: HealthStatus,
  }),
})
