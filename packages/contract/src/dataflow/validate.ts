// The whole judgement on an object: the webhook's answer, the operator's condition and what `flows validate` prints. V37 alone is
// asked elsewhere: whether a secret is shared is only known in the cluster.
import { isMap } from './field.ts'
import { normalise } from './normalise.ts'
import type { PatternEngine } from './patterns.ts'
import { type Problem, printProblem } from './problem.ts'
import type { FlowKind, Normalised } from './types.ts'

/** Longest name from which the names of all children can be made. */
const nameLengthMax = { DataFlow: 63, DataFlowCron: 36 } as const

export function validate(object: unknown, patterns: PatternEngine): Normalised {
  const map = isMap(object) ? object : {}
  const metadata = isMap(map['metadata']) ? map['metadata'] : {}
  const kind: FlowKind = map['kind'] === 'DataFlowCron' ? 'DataFlowCron' : 'DataFlow'
  const [name, namespace] = [textOf(metadata['name']), textOf(metadata['namespace'])]
  const result = normalise(map['spec'], { kind, patterns, ...(name && { name }), ...(namespace && { namespace }) })
  const problems = [...checkName(name ?? '', kind), ...result.problems]
  return { ...result, problems, flow: problems.length === 0 ? result.flow : undefined }
}

const textOf = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)

const checkName = (name: string, kind: FlowKind): Problem[] =>
  name.length <= nameLengthMax[kind]
    ? []
    : [{ path: 'metadata.name', rule: 'V35', reason: `must be at most ${nameLengthMax[kind]} characters` }]

/** The message of a refused admission; every problem stands in the causes, so this may be cut. */
export function refusalMessage(
  object: { readonly kind: string; readonly namespace: string; readonly name: string },
  problems: readonly Problem[],
): string {
  const list = problems.map(printProblem).join('; ')
  return `${object.kind} "${object.namespace}/${object.name}" is invalid: ${problems.length} problem(s): ${list}`.slice(0, messageLengthMax)
}

const messageLengthMax = 3000

/** V37, for the operator: a secret of another namespace that is not shared with the flow's. */
export const notShared = (path: string, secret: { readonly namespace: string; readonly name: string }, flowNamespace: string): Problem => ({
  path,
  rule: 'V37',
  reason: `secret ${secret.namespace}/${secret.name} is not shared with namespace ${flowNamespace}`,
})
