// Invites agents: makes a join token, keeps its hash with what those who join by it get. The token is in the answer and nowhere else.
import type { AgentInvite, Preset } from '@brokkr/contract/agent-invite.ts'
import { ApiError } from '@brokkr/contract/error.ts'
import { makeJoinToken } from '@brokkr/contract/pak.ts'
import { recordDeed } from '../audit.ts'
import type { Actor } from '../domain/actor.ts'
import { requireAnnotation, requireLabel, requireName } from '../domain/names.ts'
import { uuid7 } from '../domain/uuid7.ts'
import * as agentInvites from '../store/agent-invites.ts'
import type { Sql } from '../store/sql.ts'
import { requireLiveGenerators } from './require-live-generators.ts'

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
  readonly by: Actor
}

export async function createAgentInvite(deps: { sql: Sql }, input: CreateAgentInvite): Promise<AgentInvite & { token: string }> {
  const { preset, uses, by } = input
  const generator_ids = [...new Set(input.generator_ids ?? [])]
  const row = { ...namesOf(input), ...marksOf(input), namespaces: namespacesOf(input), generator_ids, preset, uses }
  const made = await makeJoinToken()
  const invite = await deps.sql.begin(async (sql) => {
    await requireLiveGenerators(sql, generator_ids)
    const inserted = await agentInvites.insert(sql, {
      ...row,
      id: uuid7(),
      token_hash: made.hash,
      token_short: made.short,
      seconds: input.expires_in_seconds,
      created_by: `${by.kind} ${by.id ?? '-'}`,
    })
    const { id, short_token, name, name_prefix, cluster_name, labels, expires_at } = inserted
    const details = { short_token, name, name_prefix, cluster_name, labels, generator_ids, preset, uses, expires_at }
    await recordDeed(sql, { by, action: 'invite.created', on: { type: 'pak', id }, details })
    return inserted
  })
  return { ...invite, token: made.token }
}

const prefixCharsMax = 200

/** A name is one agent's; several agents name themselves. */
function namesOf(input: CreateAgentInvite): { name: string | null; name_prefix: string | null; cluster_name: string | null } {
  const read = (value: string | null | undefined, field: string) =>
    value === null || value === undefined ? null : requireName(value, field, 'invalid_agent')
  const [name, cluster_name] = [read(input.name, 'name'), read(input.cluster_name, 'cluster_name')]
  const name_prefix = read(input.name_prefix, 'name_prefix')
  if (name !== null && name_prefix !== null) throw wrong('name_prefix', 'does not go with name: give one of them')
  if (name !== null && input.uses > 1) throw wrong('name', 'is one agent’s: give name_prefix where uses is more than 1')
  if ((name_prefix?.length ?? 0) > prefixCharsMax) throw wrong('name_prefix', `must have at most ${prefixCharsMax} characters`)
  return { name, name_prefix, cluster_name }
}

const wrong = (path: string, message: string): ApiError =>
  new ApiError('invalid_agent', `${path} ${message}`, { details: { errors: [{ path, message }] } })

const marksMax = 256

function marksOf({ labels = [], annotations = {} }: CreateAgentInvite): { labels: string[]; annotations: string } {
  const pairs = Object.entries(annotations)
  for (const [key, value] of pairs) requireAnnotation(key, value)
  if (pairs.length > marksMax)
    throw new ApiError('limit_exceeded', `an agent has at most ${marksMax} annotations`, { details: { limit: marksMax } })
  return { labels: [...new Set(labels.map(requireLabel))], annotations: JSON.stringify(annotations) }
}

const namespacePattern = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/

/** The preset that is limited to namespaces says which; the others have no limit to name. */
function namespacesOf({ preset, namespaces = [] }: CreateAgentInvite): string[] {
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
