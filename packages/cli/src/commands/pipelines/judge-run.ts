// What became of a run: which environments it reached, which it never promotes into, and whether it goes on. Pure.
import { isTerminal } from '@brokkr/contract/pipelines/promotion.ts'
import type { Promotion } from './find.ts'

export interface RunView {
  readonly run: number
  readonly revision: string
  /** Environments of the run, in promotion order. */
  readonly environments: readonly EnvironmentView[]
  /** Number of the pipeline's current run. */
  readonly currentRun: number | undefined
}

export interface EnvironmentView {
  readonly name: string
  /** The promotion of this run with the highest series. */
  readonly promotion: Pick<Promotion, 'spec' | 'status'> | null
  readonly targets: readonly { readonly ready: boolean; readonly revision?: string | undefined }[]
  readonly targetCount: number
  readonly hasPolicy: boolean
}

export type Judgement =
  | { readonly state: 'waiting'; readonly where: string }
  /** `left`: environments into which nothing is promoted, because they or one before them have no promotion. */
  | { readonly state: 'done'; readonly reached: readonly string[]; readonly left: readonly string[] }
  | { readonly state: 'failed'; readonly promotion: Pick<Promotion, 'spec' | 'status'> }
  | { readonly state: 'replaced'; readonly by: number }

export function judgeRun(view: RunView): Judgement {
  const { environments, currentRun = view.run } = view
  const failed = environments.find(({ promotion }) => promotion !== null && hasFailed(promotion))?.promotion
  if (failed) return { state: 'failed', promotion: failed }
  // An environment without a promotion ends the run, unless it has the revision already.
  const end = environments.findIndex((environment) => !environment.hasPolicy && !isReached(view, environment))
  const walked = end === -1 ? environments : environments.slice(0, end)
  const left = environments.slice(walked.length).map(({ name }) => name)
  const waiting = walked.filter((environment) => !isReached(view, environment))
  if (waiting.length === 0) return { state: 'done', reached: walked.map(({ name }) => name), left }
  if (currentRun > view.run && waiting.every(({ promotion }) => promotion === null)) return { state: 'replaced', by: currentRun }
  return {
    state: 'waiting',
    where: waiting.map(({ name, promotion }) => `${name} ${promotion?.status.phase ?? 'not promoted yet'}`).join(', '),
  }
}

function hasFailed({ status: { phase } }: Pick<Promotion, 'status'>): boolean {
  return phase !== undefined && isTerminal(phase) && phase !== 'Succeeded'
}

/** An environment without targets is passed over; one that has the revision already gets no promotion. */
function isReached({ revision }: RunView, { promotion, targets, targetCount }: EnvironmentView): boolean {
  if (promotion !== null) return promotion.status.phase === 'Succeeded'
  return targets.length === targetCount && targets.every((target) => target.ready && target.revision === revision)
}
