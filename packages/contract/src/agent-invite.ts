// Invites: an admin makes a join token, and agents that show it become agents of this broker, with the labels, annotations and
// registrations the invite names. The token is shown once; whoever joins makes its own key and tells only the hash.
import { z } from 'zod'
import { Agent } from './agent.ts'
import { endpoint } from './endpoint.ts'
import { AgentId, AnnotationKey, AnnotationValue, byId, GeneratorId, Label, pageQuery, Timestamp, Uuid } from './wire.ts'

/** What the agent may do in its cluster. */
export const Preset = z.enum(['standard', 'namespaced', 'cluster-admin', 'observe'])
export type Preset = z.output<typeof Preset>

export const AgentInvite = z.object({
  id: Uuid,
  /** The part of the token that opens nothing: tells one invite from another. */
  short_token: z.string(),
  /** Null: whoever joins names itself, under `name_prefix` where there is one. */
  name: z.string().nullable(),
  name_prefix: z.string().nullable(),
  cluster_name: z.string().nullable(),
  labels: z.array(Label),
  annotations: z.record(z.string(), z.string()),
  generator_ids: z.array(GeneratorId),
  preset: Preset,
  /** Where the preset `namespaced` lets the agent write. */
  namespaces: z.array(z.string()),
  uses: z.int(),
  uses_left: z.int(),
  approve: z.boolean(),
  expires_at: Timestamp,
  revoked_at: Timestamp.nullable(),
  created_by: z.string(),
  created_at: Timestamp,
  updated_at: Timestamp,
  /** Those that joined by it and still are. */
  agents: z.array(AgentId),
})
export type AgentInvite = z.output<typeof AgentInvite>

const path = '/api/v1/agent-invites'
const namespace = z.string().max(63)

export const createAgentInvite = endpoint({
  method: 'POST',
  path,
  summary: 'Invite agents: the join token is shown once, here. A name is for one agent; several name themselves under the prefix',
  body: z.object({
    name: z.string().nullable().optional(),
    name_prefix: z.string().nullable().optional(),
    cluster_name: z.string().nullable().optional(),
    labels: z.array(Label).max(256).optional(),
    annotations: z.record(AnnotationKey, AnnotationValue).optional(),
    generator_ids: z.array(GeneratorId).max(1000).optional(),
    preset: Preset.default('standard'),
    namespaces: z.array(namespace).max(100).optional(),
    uses: z.int().min(1).max(1000).default(1),
    expires_in_seconds: z.int().min(1).max(86_400).default(1800),
    /** A waiting room for those who join is of a later release. */
    approve: z.literal(false).optional(),
  }),
  success: 201,
  response: z.object({ ...AgentInvite.shape, token: z.string() }),
  errors: ['invalid_agent', 'invalid_generator_id', 'invalid_label', 'invalid_annotation', 'limit_exceeded'],
})

export const listAgentInvites = endpoint({
  method: 'GET',
  path,
  summary: 'Invites, newest first, without their tokens',
  query: z.object(pageQuery),
  success: 200,
  response: z.array(AgentInvite),
  errors: ['invalid_cursor'],
})

export const getAgentInvite = endpoint({
  method: 'GET',
  path: `${path}/{id}`,
  summary: 'One invite, without its token: what is left of it, and who joined by it',
  params: byId(Uuid),
  success: 200,
  response: AgentInvite,
  errors: ['not_found'],
})

export const revokeAgentInvite = endpoint({
  method: 'DELETE',
  path: `${path}/{id}`,
  summary: 'Revoke an invite: nobody joins by it any more; those that did stay',
  params: byId(Uuid),
  success: 204,
  errors: ['not_found'],
})

export const getJoinManifest = endpoint({
  method: 'GET',
  path: '/api/v1/join/manifest',
  summary: 'What to apply in a cluster so that an agent runs there and joins by this token: namespace, rights, token, Deployment',
  credential: 'join',
  success: 200,
  text: 'application/yaml',
  response: z.string(),
  errors: ['agent_image_unset'],
})

const Joined = z.object({ agent: Agent })

export const join = endpoint({
  method: 'POST',
  path: '/api/v1/join',
  summary: 'Become an agent by a join token, under a key whose hash alone is told. The same hash again is the same join (200)',
  credential: 'join',
  body: z.object({
    short_token: z.string(),
    pak_hash: z.string(),
    name: z.string().nullable().optional(),
    cluster_name: z.string().nullable().optional(),
    /** Of namespace kube-system: names the cluster for ever. */
    cluster_uid: z.string().max(64),
    agent_version: z.string().max(64),
    k8s_version: z.string().max(64),
    sent_at: Timestamp,
  }),
  success: 201,
  response: Joined,
  other: { status: 200, response: Joined },
  errors: ['invalid_agent', 'unique_violation', 'clock_skew'],
})
