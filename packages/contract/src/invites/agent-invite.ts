// Invites: an admin creates a join token, and processes that present it become agents with the labels, annotations and
// registrations of the invite. The token is shown once. An agent generates its own PAK and sends only the hash.
import { z } from 'zod'
import { Agent } from '../agents/agent.ts'
import { endpoint } from '../endpoint.ts'
import { AgentId, AnnotationKey, AnnotationValue, byId, GeneratorId, Label, pageQuery, Timestamp, Uuid } from '../wire.ts'

/** Permissions of the agent in its cluster. */
export const Preset = z.enum(['standard', 'namespaced', 'cluster-admin', 'observe'])
export type Preset = z.output<typeof Preset>

export const AgentInvite = z.object({
  id: Uuid,
  /** Short part of the token; it identifies the invite and grants nothing. */
  short_token: z.string(),
  /** null: the agent chooses its name, below `name_prefix` if set. */
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
  summary:
    'Create an invite; the response is the only one that contains the join token. A name allows one agent; with a prefix, agents choose their names',
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
    /** Approval of joining agents is reserved for a later release. */
    approve: z.literal(false).optional(),
  }),
  success: 201,
  response: z.object({ ...AgentInvite.shape, token: z.string() }),
  errors: ['invalid_agent', 'invalid_generator_id', 'invalid_label', 'invalid_annotation', 'limit_exceeded'],
})

export const listAgentInvites = endpoint({
  method: 'GET',
  path,
  summary: 'List invites, newest first, without tokens',
  query: z.object(pageQuery),
  success: 200,
  response: z.array(AgentInvite),
  errors: ['invalid_cursor'],
})

export const getAgentInvite = endpoint({
  method: 'GET',
  path: `${path}/{id}`,
  summary: 'Read an invite, without its token, with remaining uses and joined agents',
  params: byId(Uuid),
  success: 200,
  response: AgentInvite,
  errors: ['not_found'],
})

export const revokeAgentInvite = endpoint({
  method: 'DELETE',
  path: `${path}/{id}`,
  summary: 'Revoke an invite; agents that joined with it stay',
  params: byId(Uuid),
  success: 204,
  errors: ['not_found'],
})

export const getJoinManifest = endpoint({
  method: 'GET',
  path: '/api/v1/join/manifest',
  summary: 'Read the manifest that installs an agent which joins with this token: namespace, RBAC, Secret, Deployment',
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
  summary: 'Join as an agent with a join token and the hash of a new PAK. A repeated call with the same hash returns the same agent (200)',
  credential: 'join',
  body: z.object({
    short_token: z.string(),
    pak_hash: z.string(),
    name: z.string().nullable().optional(),
    cluster_name: z.string().nullable().optional(),
    /** UID of namespace kube-system; identifies the cluster permanently. */
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
