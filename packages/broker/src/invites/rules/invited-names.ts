// Resolves the names of a joining agent from its invite and its request. Pure.
import { ApiError } from '@brokkr/contract/errors.ts'
import { requireName } from '../../rules/names.ts'

export interface InviteNames {
  readonly name: string | null
  readonly name_prefix: string | null
  readonly cluster_name: string | null
}
export interface RequestedNames {
  readonly name?: string | null | undefined
  readonly cluster_name?: string | null | undefined
}

/** The cluster name defaults to the name of the agent. */
export function resolveAgentNames(invite: InviteNames, request: RequestedNames): { name: string; cluster_name: string } {
  const requestedName = request.name ?? invite.name
  if (requestedName === null) throw invalidName('name', 'is missing: set it in the invite or in the request of the agent')
  const name = requireName(requestedName, 'name', 'invalid_agent')
  if (invite.name !== null && name !== invite.name) throw invalidName('name', `must be ${invite.name}: the invite allows only this agent`)
  if (invite.name_prefix !== null && !name.startsWith(invite.name_prefix))
    throw invalidName('name', `must begin with ${invite.name_prefix}: the invite allows only such names`)
  const cluster_name = requireName(request.cluster_name ?? invite.cluster_name ?? name, 'cluster_name', 'invalid_agent')
  if (invite.cluster_name !== null && cluster_name !== invite.cluster_name)
    throw invalidName('cluster_name', `must be ${invite.cluster_name}: the invite allows only this cluster`)
  return { name, cluster_name }
}

const invalidName = (path: string, message: string): ApiError =>
  new ApiError('invalid_agent', `${path} ${message}`, { details: { errors: [{ path, message }] } })
