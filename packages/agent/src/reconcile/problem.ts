// Problems of an attempt with the codes of status reports and events. Pure.
import { classifyFailure, describeRef, type Failure, ForeignApplySet, type GroupKind, groupKindOf, type ObjectRef } from '@brokkr/kube'

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
  /** The object concerned; undefined: the whole stack. */
  readonly ref?: ObjectRef | undefined
  readonly retryAfterMs?: number | undefined
  /** Kinds and namespaces whose creation makes a retry useful. */
  readonly waitsFor?: WaitsFor | undefined
}
export interface WaitsFor {
  readonly kinds: readonly GroupKind[]
  readonly namespaces: readonly string[]
}

/** Problem of the manifest itself. */
export const toInvalidProblem = (message: string): Problem => ({ phase: 'failed', code: 'invalid', message })

const namespaceRetryMs = 5_000

export function toProblem(failure: Failure, ref?: ObjectRef): Problem {
  const { retryAfterMs } = failure
  const message = ref === undefined ? failure.message : `${describeRef(ref)}: ${plainText(failure)}`
  if (failure.code === 'namespace') return { phase: 'pending', code: 'namespace', message, ref, retryAfterMs: namespaceRetryMs }
  if (failure.code === 'crd') return { phase: 'pending', code: 'crd', message, ref, retryAfterMs }
  // A repeated conflict or a deleted object: the next attempt decides.
  const code = failure.code === 'conflict' || failure.code === 'gone' ? 'unavailable' : failure.code
  return { phase: 'failed', code, message, ref, retryAfterMs, waitsFor: toDependencies(code, ref) }
}

/** Names the object instead of the request; a missing RBAC right comes first. */
function plainText({ code, message }: Failure): string {
  const text = message.replace(/^(GET|POST|PUT|PATCH|DELETE) https?:\/\/\S+: /, '')
  const missing = code === 'forbidden' ? /cannot (\S+) resource "([^"]+)"(?: in API group "([^"]*)")?/.exec(text) : null
  return missing ? `forbidden: ${missing[1]} ${missing[2]}${missing[3] ? `.${missing[3]}` : ''}: ${text}` : text
}

function toDependencies(code: Problem['code'], ref: ObjectRef | undefined): WaitsFor | undefined {
  if (ref === undefined) return undefined
  if (code === 'missing_kind') return { kinds: [groupKindOf(ref)], namespaces: [] }
  return code === 'missing_namespace' ? { kinds: [], namespaces: [ref.namespace ?? ''] } : undefined
}

/** Problem for any thrown error. */
export function toErrorProblem(error: unknown): Problem {
  if (error instanceof ForeignApplySet) return { phase: 'failed', code: 'foreign_object', message: error.message }
  return toProblem(classifyFailure(error))
}

const namedMax = 20
const messageCharsMax = 4_000

/** Combines problems: a failure outranks a wait, and all are named up to a limit. */
export function combineProblems(problems: readonly Problem[]): Problem {
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
