// A key with a scope manages keys within that scope only, or it could make itself one without.
import { ApiError } from '@brokkr/contract/error.ts'

const allVerbs = ['read', 'deploy', 'operate', 'approve', 'notify', 'admin']

/** null is all verbs. */
export function refuseWiderScope(own: readonly string[] | null, wanted: readonly string[] | null): void {
  if (own === null) return
  const verb = (wanted ?? allVerbs).find((each) => !own.includes(each))
  if (verb === undefined) return
  throw new ApiError('scope_denied', 'a key with a scope manages only keys within that scope', { details: { verb } })
}
