// Why a stack cannot be brought to where it should be, by the codes that status and events carry. Pure.
import { ForeignApplySet } from '@brokkr/kube/applyset.ts'
import { type Failure, failureOf } from '@brokkr/kube/failure.ts'
import { describeRef, type GroupKind, groupKindOf, type ObjectRef } from '@brokkr/kube/object.ts'

export type FailedCode =
  | 'invalid'
  | 'immutable_field'
  | 'missing_kind'
  | 'missing_namespace'
  | 'forbidden'
  | 'denied'
  | 'field_conflict'
  | 'foreign_object'
  | 'owned_by_other_stack'
  | 'outside_scope'
  | 'policy_denied'
  | 'signature_refused'
  | 'timeout'
  | 'unavailable'
export type PendingCode = 'applying' | 'crd' | 'namespace' | 'removing'

export interface Problem {
  readonly phase: 'failed' | 'pending'
  readonly code: FailedCode | PendingCode
  readonly message: string
  /** The object it is about; undefined: the stack as a whole. */
  readonly ref?: ObjectRef | undefined
  readonly retryAfterMs?: number | undefined
  /** Whose arrival would make another try worth it. */
  readonly waitsFor?: WaitsFor | undefined
}
export interface WaitsFor {
  readonly kinds: readonly GroupKind[]
  readonly namespaces: readonly string[]
}

/** What is about the whole manifest and no object of the cluster. */
export const invalid = (message: string): Problem => ({ phase: 'failed', code: 'invalid', message })

const namespaceRetryMs = 5_000

export function problemOf(failure: Failure, ref?: ObjectRef): Problem {
  const { retryAfterMs } = failure
  const message = ref === undefined ? failure.message : `${describeRef(ref)}: ${plainText(failure)}`
  if (failure.code === 'namespace') return { phase: 'pending', code: 'namespace', message, ref, retryAfterMs: namespaceRetryMs }
  if (failure.code === 'crd') return { phase: 'pending', code: 'crd', message, ref, retryAfterMs }
  // A race that was lost too often, or an object that went meanwhile: the next look decides.
  const code = failure.code === 'conflict' || failure.code === 'gone' ? 'unavailable' : failure.code
  return { phase: 'failed', code, message, ref, retryAfterMs, waitsFor: waitOf(code, ref) }
}

/** Which request it was says less than which object; what RBAC misses comes first. */
function plainText({ code, message }: Failure): string {
  const text = message.replace(/^(GET|POST|PUT|PATCH|DELETE) https?:\/\/\S+: /, '')
  const missing = code === 'forbidden' ? /cannot (\S+) resource "([^"]+)"(?: in API group "([^"]*)")?/.exec(text) : null
  return missing ? `forbidden: ${missing[1]} ${missing[2]}${missing[3] ? `.${missing[3]}` : ''}: ${text}` : text
}

function waitOf(code: Problem['code'], ref: ObjectRef | undefined): WaitsFor | undefined {
  if (ref === undefined) return undefined
  if (code === 'missing_kind') return { kinds: [groupKindOf(ref)], namespaces: [] }
  return code === 'missing_namespace' ? { kinds: [], namespaces: [ref.namespace ?? ''] } : undefined
}

/** Whatever was thrown on the way. */
export function problemOfError(error: unknown): Problem {
  if (error instanceof ForeignApplySet) return { phase: 'failed', code: 'foreign_object', message: error.message }
  return problemOf(failureOf(error))
}

const namedMax = 20
const messageCharsMax = 4_000

/** Several problems as one: a failure weighs more than a wait, and all are named up to a bound. */
export function combine(problems: readonly Problem[]): Problem {
  const worst = problems.find(({ phase }) => phase === 'failed') ?? problems[0]
  if (!worst) throw new RangeError('combine needs at least one problem')
  const texts = problems.slice(0, namedMax).map(({ message }) => message)
  const more = problems.length > namedMax ? [`and ${problems.length - namedMax} more`] : []
  const pauses = problems.map(({ retryAfterMs }) => retryAfterMs).filter((ms) => ms !== undefined)
  const waits = problems.flatMap(({ waitsFor }) => waitsFor ?? [])
  return {
    ...worst,
    message: cut([...texts, ...more].join('; ')),
    retryAfterMs: pauses.length > 0 ? Math.min(...pauses) : undefined,
    waitsFor:
      waits.length > 0
        ? { kinds: waits.flatMap(({ kinds }) => kinds), namespaces: waits.flatMap(({ namespaces }) => namespaces) }
        : undefined,
  }
}

const cut = (text: string): string => (text.length <= messageCharsMax ? text : `${text.slice(0, messageCharsMax)}…[cut]`)
