// Events on the Pipeline. They explain and never decide. Events of a phase have fixed names, so that each is written once.
import { PIPELINE } from '@brokkr/contract/pipelines/fields.ts'
import type { PipelineStatus } from '@brokkr/contract/pipelines/pipeline-status.ts'
import type { Phase, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import type { Recorder } from '@brokkr/kube'
import type { ObservedEnvironment } from '../decide/observed.ts'
import type { PipelineRecord, PromotionRecord } from '../objects.ts'

const PHASE_EVENTS: Partial<Record<Phase, { type: 'Normal' | 'Warning'; reason: string }>> = {
  AwaitingApproval: { type: 'Normal', reason: 'ApprovalNeeded' },
  Blocked: { type: 'Warning', reason: 'PromotionBlocked' },
  Failed: { type: 'Warning', reason: 'PromotionFailed' },
  Errored: { type: 'Warning', reason: 'PromotionFailed' },
  Rejected: { type: 'Warning', reason: 'Rejected' },
  Expired: { type: 'Warning', reason: 'Expired' },
  Abandoned: { type: 'Warning', reason: 'Abandoned' },
  Succeeded: { type: 'Normal', reason: 'PromotionSucceeded' },
  Superseded: { type: 'Normal', reason: 'PromotionSuperseded' },
}

export class PipelineEvents {
  readonly #recorder: Recorder

  constructor(recorder: Recorder) {
    this.#recorder = recorder
  }

  /** W7: after a phase was written. */
  phaseEntered(pipeline: PipelineRecord, promotion: PromotionRecord, before: PromotionStatus): void {
    const { phase = 'Pending', message, effect } = promotion.status
    if (phase === before.phase) return
    const { environment, revision } = promotion.spec
    const record = (type: 'Normal' | 'Warning', reason: string, name: string) =>
      this.#record(pipeline, {
        type,
        reason,
        message: `${environment}: ${reason} ${revision}${message ? `: ${message}` : ''}`,
        name: `${promotion.name}.${name}`,
      })
    if (before.phase === 'AwaitingApproval' && phase === 'Queued') record('Normal', 'Approved', 'approved')
    if (phase === 'Applied' && effect?.prUrl !== undefined && before.phase !== 'Verifying')
      record('Normal', 'PullRequestOpened', 'pull-request')
    const event = PHASE_EVENTS[phase]
    if (event !== undefined) record(event.type, event.reason, phase.toLowerCase())
  }

  runStarted(pipeline: PipelineRecord, run: { number: number; revision: string }): void {
    this.#record(pipeline, {
      type: 'Normal',
      reason: 'RunStarted',
      message: `run ${run.number} of ${run.revision} started`,
      name: `${pipeline.name}.${pipeline.uid.slice(0, 8)}.run-${run.number}`,
    })
  }

  /** Once per change of a target's error. */
  targetErrors(pipeline: PipelineRecord, observed: readonly ObservedEnvironment[]): void {
    for (const environment of observed) {
      for (const [index, target] of environment.targets.entries()) {
        const before = pipeline.status.environments?.[environment.name]?.targets?.[index]?.error
        if (target.problem === null || target.error === null || target.error === before) continue
        const reason = target.problem === 'app-not-found' || target.problem === 'kind-not-served' ? 'GetAppError' : 'GetClusterError'
        this.#record(pipeline, { type: 'Warning', reason, message: `${environment.name}: ${target.error}` })
      }
    }
  }

  updated(pipeline: PipelineRecord, status: PipelineStatus): void {
    const ready = status.conditions?.find(({ type }) => type === 'Ready')
    this.#record(pipeline, { type: 'Normal', reason: 'Updated', message: `Updated pipeline ${pipeline.key}: ${ready?.reason ?? ''}` })
  }

  statusFailed(pipeline: PipelineRecord, error: string): void {
    this.#record(pipeline, { type: 'Warning', reason: 'SetStatus', message: error })
  }

  #record(pipeline: PipelineRecord, news: Parameters<Recorder['record']>[1]): void {
    const { namespace, name, uid } = pipeline
    this.#recorder.record({ ...PIPELINE, namespace, name, uid }, news)
  }
}
