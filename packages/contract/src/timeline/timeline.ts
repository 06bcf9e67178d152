// The timeline: changes of desired state, results in clusters and changes by people on one axis, newest first, summed per step of time.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, DeploymentObjectId, StackId, Timestamp, Uuid } from '../wire.ts'

export const TimelineStep = z.enum(['minute', 'hour', 'day'])
export type TimelineStep = z.output<typeof TimelineStep>

/** Equal records of one step. Fields other than times and counts describe the newest record. */
export const TimelineEntry = z.object({
  /** Id of the newest record. */
  id: Uuid,
  /** `deployment`: submitted deployment objects. `agent`: agent events. `change`: other audit entries. */
  kind: z.enum(['deployment', 'agent', 'change']),
  /** Action of an audit entry, or type of an agent event. */
  action: z.string(),
  /** Of agent events, SUCCESS or FAILURE; null for others. */
  status: z.string().nullable(),
  /** Newest and oldest record. */
  at: Timestamp,
  since: Timestamp,
  records: z.int(),
  /** Number of agents that reported; 0 for entries that are not agent events. */
  agents: z.int(),
  agent_id: AgentId.nullable(),
  agent_name: z.string().nullable(),
  actor_type: z.string(),
  actor_id: Uuid.nullable(),
  actor_name: z.string().nullable(),
  stack_id: StackId.nullable(),
  stack_name: z.string().nullable(),
  deployment_object_id: DeploymentObjectId.nullable(),
  sequence_id: z.int().nullable(),
  resource_type: z.string(),
  resource_id: Uuid.nullable(),
  resource_name: z.string().nullable(),
  message: z.string().nullable(),
})
export type TimelineEntry = z.output<typeof TimelineEntry>

export const listTimeline = endpoint({
  method: 'GET',
  path: '/api/v1/timeline',
  summary: 'List submitted deployment objects, agent events and other changes on one axis, newest first, summed per minute, hour or day',
  query: z.object({
    /** Equal records within one step are summed. */
    step: TimelineStep.default('minute'),
    /** Inclusive. */
    from: Timestamp.optional(),
    /** Exclusive. */
    to: Timestamp.optional(),
    /** Records that one page sums, at most 2000. A page can have fewer entries than records, also none. */
    limit: z.int().min(1).default(1000),
    cursor: z.string().max(2048).optional(),
  }),
  success: 200,
  response: z.array(TimelineEntry),
  errors: ['invalid_cursor'],
})
