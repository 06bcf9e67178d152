// An admin PAK manages only PAKs within its own rights; otherwise it could create one with more rights.
import { ApiError } from '@brokkr/contract/errors.ts'

const allVerbs = ['read', 'deploy', 'operate', 'approve', 'notify', 'admin']

/** A null scope allows all verbs. */
export function refuseWiderScope(callerValue: readonly string[] | null, requested: readonly string[] | null): void {
  if (callerValue === null) return
  const verb = (requested ?? allVerbs).find((each) => !callerValue.includes(each))
  if (verb === undefined) return
  throw new ApiError('scope_denied', 'an admin PAK with a scope manages only PAKs within that scope', { details: { verb } })
}

/** A null expiry means never. */
export function refuseLaterEnd(callerValue: string | null, requested: string | null): void {
  if (callerValue === null || (requested !== null && Date.parse(requested) <= Date.parse(callerValue))) return
  const message = `an admin PAK that expires cannot create or rotate one that outlives it: set expires_at to ${callerValue} or earlier`
  throw new ApiError('scope_denied', message, { details: { expires_at: callerValue } })
}
