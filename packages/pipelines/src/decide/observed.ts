// What a pass has seen of the targets, in spec order, and the questions that decisions ask about it. Pure.

/** Why a target could not be read, or is not there. */
export type TargetProblem =
  | 'cluster-not-found'
  | 'cluster-not-ready'
  | 'cluster-unusable'
  | 'unreachable'
  | 'not-synced'
  | 'kind-not-served'
  | 'app-not-found'

export interface ObservedTarget {
  /** `absent` is definite: the cluster answered that there is no such object. `indefinite`: nothing is known at this moment. */
  readonly presence: 'present' | 'absent' | 'indefinite'
  readonly ready: boolean
  readonly revision: string | null
  readonly error: string | null
  readonly problem: TargetProblem | null
  /** When this process saw the revision change or saw the target first; null: it was never read. */
  readonly revisionChangedAtMs: number | null
}

export interface ObservedEnvironment {
  readonly name: string
  readonly targets: readonly ObservedTarget[]
}

/** All targets are present, ready and on one common revision: that revision; else null. */
export function settledRevision(environment: ObservedEnvironment): string | null {
  const [first] = environment.targets
  const revision = first?.revision ?? ''
  return revision !== '' && isSettledOn(environment, revision) ? revision : null
}

export const isSettledOn = ({ targets }: ObservedEnvironment, revision: string): boolean =>
  targets.length > 0 && targets.every((target) => target.presence === 'present' && target.ready && target.revision === revision)

export const isIndefinite = ({ targets }: ObservedEnvironment): boolean => targets.some(({ presence }) => presence === 'indefinite')

/** Some target is definitely on another revision, or absent. */
export const hasLeft = ({ targets }: ObservedEnvironment, revision: string): boolean =>
  targets.some((target) => target.presence === 'absent' || (target.presence === 'present' && target.revision !== revision))

export function countTargets({ targets }: ObservedEnvironment, revision: string): { targets: number; onRevision: number; ready: number } {
  const onRevision = targets.filter((target) => target.revision === revision)
  return { targets: targets.length, onRevision: onRevision.length, ready: onRevision.filter(({ ready }) => ready).length }
}

/** Two distinct messages, because they ask for different things of the reader. */
export function whyNotSettled(environment: ObservedEnvironment): string {
  const { name, targets } = environment
  if (targets.length === 0) return `environment ${name} has no targets`
  const notReady = targets.filter(({ ready }) => !ready).length
  if (notReady > 0) return `environment ${name}: ${notReady} of ${targets.length} targets are not ready`
  return `environment ${name}: its targets are on different revisions`
}
