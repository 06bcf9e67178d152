// How an agent that joins is called: as its invite says, or as it says itself within what the invite allows. Pure.
import { ApiError } from '@brokkr/contract/error.ts'
import { requireName } from './names.ts'

export interface InviteNames {
  readonly name: string | null
  readonly name_prefix: string | null
  readonly cluster_name: string | null
}
export interface AskedNames {
  readonly name?: string | null | undefined
  readonly cluster_name?: string | null | undefined
}

/** Without a name of its own a cluster is called like its agent. */
export function invitedNames(invite: InviteNames, asked: AskedNames): { name: string; cluster_name: string } {
  const given = asked.name ?? invite.name
  if (given === null) throw wrong('name', 'is missing: neither the invite nor the agent says it')
  const name = requireName(given, 'name', 'invalid_agent')
  if (invite.name !== null && name !== invite.name) throw wrong('name', `must be ${invite.name}: the invite is for that agent alone`)
  if (invite.name_prefix !== null && !name.startsWith(invite.name_prefix))
    throw wrong('name', `must begin with ${invite.name_prefix}: the invite is for such agents alone`)
  const cluster_name = requireName(asked.cluster_name ?? invite.cluster_name ?? name, 'cluster_name', 'invalid_agent')
  if (invite.cluster_name !== null && cluster_name !== invite.cluster_name)
    throw wrong('cluster_name', `must be ${invite.cluster_name}: the invite is for that cluster alone`)
  return { name, cluster_name }
}

const wrong = (path: string, message: string): ApiError =>
  new ApiError('invalid_agent', `${path} ${message}`, { details: { errors: [{ path, message }] } })
