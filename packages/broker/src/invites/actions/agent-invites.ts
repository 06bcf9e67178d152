// Invites for agents: create and revoke.
import { generateJoinToken } from '@brokkr/contract/auth/pak.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { AgentInvite, Preset } from '@brokkr/contract/invites/agent-invite.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireLiveGenerators } from '../../generators/actions/generators.ts'
import { requireAnnotation, requireLabel, requireName } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as agentInvites from '../store.ts'

// Creates an invite: stores the hash of a new join token with the names, labels and registrations of joining agents. Only the response
// contains the token.

export interface CreateAgentInvite {
  readonly name?: string | null | undefined
  readonly name_prefix?: string | null | undefined
  readonly cluster_name?: string | null | undefined
  readonly labels?: readonly string[] | undefined
  readonly annotations?: Readonly<Record<string, string>> | undefined
  readonly generator_ids?: readonly string[] | undefined
  readonly preset: Preset
  readonly namespaces?: readonly string[] | undefined
  readonly uses: number
  readonly expires_in_seconds: number
  readonly actor: Actor
}

export async function createAgentInvite(deps: { sql: Sql }, input: CreateAgentInvite): Promise<AgentInvite & { token: string }> {
  const { preset, uses, actor } = input
  const generator_ids = [...new Set(input.generator_ids ?? [])]
  const row = { ...readNames(input), ...readLabels(input), namespaces: readNamespaces(input), generator_ids, preset, uses }
  const joinToken = await generateJoinToken()
  const invite = await deps.sql.begin(async (sql) => {
    await requireLiveGenerators(sql, generator_ids)
    const inviteRow = await agentInvites.insert(sql, {
      ...row,
      id: uuid7(),
      token_hash: joinToken.hash,
      token_short: joinToken.short,
      seconds: input.expires_in_seconds,
      created_by: `${actor.kind} ${actor.id ?? '-'}`,
    })
    const { id, short_token, name, name_prefix, cluster_name, labels, expires_at } = inviteRow
    const details = { short_token, name, name_prefix, cluster_name, labels, generator_ids, preset, uses, expires_at }
    await recordAuditEntry(sql, { actor, action: 'invite.created', resource: { type: 'pak', id }, details })
    return inviteRow
  })
  return { ...invite, token: joinToken.token }
}

const prefixCharsMax = 200

/** A fixed name allows one agent; with several uses the agents name themselves. */
function readNames(input: CreateAgentInvite): { name: string | null; name_prefix: string | null; cluster_name: string | null } {
  const read = (value: string | null | undefined, field: string) =>
    value === null || value === undefined ? null : requireName(value, field, 'invalid_agent')
  const [name, cluster_name] = [read(input.name, 'name'), read(input.cluster_name, 'cluster_name')]
  const name_prefix = read(input.name_prefix, 'name_prefix')
  if (name !== null && name_prefix !== null) throw invalidField('name_prefix', 'cannot be combined with name: send one of them')
  if (name !== null && input.uses > 1) throw invalidField('name', 'allows one agent only: send name_prefix if uses is greater than 1')
  if ((name_prefix?.length ?? 0) > prefixCharsMax) throw invalidField('name_prefix', `must have at most ${prefixCharsMax} characters`)
  return { name, name_prefix, cluster_name }
}

const invalidField = (path: string, message: string): ApiError =>
  new ApiError('invalid_agent', `${path} ${message}`, { details: { errors: [{ path, message }] } })

const labelsMax = 256

function readLabels({ labels = [], annotations = {} }: CreateAgentInvite): { labels: string[]; annotations: string } {
  const entries = Object.entries(annotations)
  for (const [key, value] of entries) requireAnnotation(key, value)
  if (entries.length > labelsMax)
    throw new ApiError('limit_exceeded', `an agent has at most ${labelsMax} annotations`, { details: { limit: labelsMax } })
  return { labels: [...new Set(labels.map(requireLabel))], annotations: JSON.stringify(annotations) }
}

const namespacePattern = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** Namespaces are required for the preset `namespaced` and not allowed for the others. */
function readNamespaces({ preset, namespaces = [] }: CreateAgentInvite): string[] {
  const message =
    preset === 'namespaced' && namespaces.length === 0
      ? 'must name where the agent may write: the preset is namespaced'
      : preset !== 'namespaced' && namespaces.length > 0
        ? 'goes with the preset namespaced alone'
        : namespaces.every((one) => namespacePattern.test(one))
          ? null
          : 'holds something that is no name of a namespace'
  if (message !== null)
    throw new ApiError('validation_failed', `namespaces ${message}`, { details: { errors: [{ path: 'namespaces', message }] } })
  return [...new Set(namespaces)]
}

/** Revokes an invite: no agent can join by it after the commit. Agents that joined before stay. Idempotent. */
export async function revokeAgentInvite(deps: { sql: Sql }, { id, actor }: { id: string; actor: Actor }): Promise<void> {
  await deps.sql.begin(async (sql) => {
    const invite = await agentInvites.get(sql, { id })
    if (invite === null) throw new ApiError('not_found', 'no such invite')
    if ((await agentInvites.revoke(sql, { id })) === 0) return
    const { short_token, uses_left } = invite
    await recordAuditEntry(sql, { actor, action: 'invite.revoked', resource: { type: 'pak', id }, details: { short_token, uses_left } })
  })
}
