// Validates an object for the webhook, the operator and `flows validate`. Except for V37: only the cluster knows whether a secret is
// shared.
import { isMap } from '../fields/field.ts'
import { type Problem, printProblem } from '../fields/problem.ts'
import type { PatternEngine } from '../language/patterns.ts'
import { normalize } from './normalize.ts'
import type { FlowKind, NormalizeResult } from './types.ts'

/** Longest name from which the names of all child objects can be built. */
const nameLengthMax = { DataFlow: 63, DataFlowCron: 36 } as const

export function validate(object: unknown, patterns: PatternEngine): NormalizeResult {
  const map = isMap(object) ? object : {}
  const metadata = isMap(map['metadata']) ? map['metadata'] : {}
  const kind: FlowKind = map['kind'] === 'DataFlowCron' ? 'DataFlowCron' : 'DataFlow'
  const [name, namespace] = [toText(metadata['name']), toText(metadata['namespace'])]
  const result = normalize(map['spec'], { kind, patterns, ...(name && { name }), ...(namespace && { namespace }) })
  const problems = [...checkName(name ?? '', kind), ...result.problems]
  return { ...result, problems, flow: problems.length === 0 ? result.flow : undefined }
}

const toText = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

const checkName = (name: string, kind: FlowKind): Problem[] =>
  name.length <= nameLengthMax[kind]
    ? []
    : [{ path: 'metadata.name', rule: 'V35', reason: `must be at most ${nameLengthMax[kind]} characters` }]

/** Message of a refused admission; all problems are in the causes, so it may be truncated. */
export function refusalMessage(
  object: { readonly kind: string; readonly namespace: string; readonly name: string },
  problems: readonly Problem[],
): string {
  const list = problems.map(printProblem).join('; ')
  return `${object.kind} "${object.namespace}/${object.name}" is invalid: ${problems.length} problem(s): ${list}`.slice(0, messageLengthMax)
}

const messageLengthMax = 3000

/** V37, for the operator: a secret of another namespace that is not shared with the flow's namespace. */
export const notShared = (path: string, secret: { readonly namespace: string; readonly name: string }, flowNamespace: string): Problem => ({
  path,
  rule: 'V37',
  reason: `secret ${secret.namespace}/${secret.name} is not shared with namespace ${flowNamespace}`,
})
