// Pipelines and promotions as the board shows them. They arrive as Kubernetes objects, so every field is read carefully. Pure.
import type { StoredPipeline, StoredPromotion } from '@brokkr/contract/pipelines/endpoints.ts'
import type { State } from '../parts/icon.tsx'

export interface Gate {
  readonly state: State
  readonly title: string
  readonly note: string
}
export interface PromotionCard {
  /** namespace/name. */
  readonly id: string
  readonly namespace: string
  readonly name: string
  readonly pipeline: string
  readonly environment: string
  readonly revision: string
  readonly key: string
  readonly phase: string
  readonly phaseSince: string | null
  readonly message: string
  readonly state: State
  readonly isOpen: boolean
  readonly gates: readonly Gate[]
  readonly approvals: readonly { subject: string; decision: string; at: string; message: string }[]
  readonly cause: string
  readonly pullRequest: string | null
  readonly createdAt: string
}
export interface EnvironmentLane {
  readonly name: string
  readonly revision: string | null
  readonly isReady: boolean
  readonly targets: number
  readonly ready: number
  readonly error: string | null
}
export interface PipelineLane {
  readonly id: string
  readonly namespace: string
  readonly name: string
  readonly app: string
  readonly isHeld: boolean
  readonly environments: readonly EnvironmentLane[]
}

type Json = Record<string, unknown>
const object = (value: unknown): Json => (typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : {})
const list = (value: unknown): unknown[] => (Array.isArray(value) ? value : [])
const text = (value: unknown): string | null => (typeof value === 'string' && value !== '' ? value : null)
const number = (value: unknown): number | null => (typeof value === 'number' ? value : null)

const terminal: readonly string[] = ['Succeeded', 'Failed', 'Errored', 'Rejected', 'Expired', 'Abandoned', 'Superseded', 'Aborted']

function phaseState(phase: string): State {
  if (phase === 'AwaitingApproval') return 'held'
  if (phase === 'Succeeded') return 'current'
  if (['Failed', 'Errored', 'Rejected', 'Expired', 'Blocked'].includes(phase)) return 'failing'
  return terminal.includes(phase) ? 'unknown' : 'progressing'
}

export function toCard({ metadata, spec, status }: StoredPromotion): PromotionCard {
  const phase = text(status['phase']) ?? 'Pending'
  const approvals = list(status['approvals']).map(object)
  return {
    id: `${metadata.namespace}/${metadata.name}`,
    namespace: metadata.namespace,
    name: metadata.name,
    pipeline: text(object(spec['pipelineRef'])['name']) ?? '',
    environment: text(spec['environment']) ?? '',
    revision: text(spec['revision']) ?? '',
    key: text(spec['key']) ?? '',
    phase,
    phaseSince: text(status['phaseSince']),
    message: text(status['message']) ?? '',
    state: phaseState(phase),
    isOpen: !terminal.includes(phase),
    gates: toGates(phase, spec, status),
    approvals: approvals.map((entry) => ({
      subject: text(entry['subject']) ?? '',
      decision: text(entry['decision']) ?? '',
      at: text(entry['at']) ?? '',
      message: text(entry['message']) ?? '',
    })),
    cause: [text(object(spec['cause'])['kind']), text(object(spec['cause'])['actor'])].filter(Boolean).join(' by '),
    pullRequest: text(object(status['effect'])['prUrl']),
    createdAt: metadata.creationTimestamp,
  }
}

function toGates(phase: string, spec: Json, status: Json): Gate[] {
  const gates: Gate[] = []
  if (spec['approval'] !== undefined) {
    const needed = number(object(spec['approval'])['minApprovals']) ?? 1
    const given = list(status['approvals']).filter((entry) => object(entry)['decision'] === 'approve').length
    const isWaiting = phase === 'AwaitingApproval'
    const who = list(object(spec['approval'])['approvers']).filter((one) => typeof one === 'string')
    gates.push({
      state: isWaiting ? 'held' : 'current',
      title: `Approvals ${given} of ${needed}`,
      note: isWaiting ? (who.length === 0 ? 'any caller that may approve' : `one of ${who.join(', ')}`) : 'open',
    })
  }
  const observed = object(status['observed'])
  const targets = number(observed['targets'])
  if (targets !== null) {
    const ready = number(observed['ready']) ?? 0
    gates.push({
      state: ready === targets ? 'current' : 'progressing',
      title: `Ready ${ready} of ${targets}`,
      note: `${number(observed['onRevision']) ?? 0} on this revision`,
    })
  }
  const soakUntil = text(observed['soakUntil'])
  if (soakUntil !== null) gates.push({ state: 'progressing', title: 'Soak', note: `until ${new Date(soakUntil).toLocaleTimeString()}` })
  for (const condition of list(status['conditions']).map(object)) {
    const type = text(condition['type'])
    if (type === null || type === 'Ready' || condition['status'] === 'True') continue
    gates.push({ state: 'held', title: type, note: text(condition['message']) ?? text(condition['reason']) ?? '' })
  }
  return gates
}

export function toLane({ metadata, spec, status }: StoredPipeline): PipelineLane {
  const reported = object(status['environments'])
  const app = object(spec?.['appRef'])
  return {
    id: `${metadata.namespace}/${metadata.name}`,
    namespace: metadata.namespace,
    name: metadata.name,
    app: [text(app['kind']), text(app['name'])].filter(Boolean).join(' '),
    isHeld: object(spec?.['policy'])['hold'] === true || metadata.annotations?.['pipelines.brokkr.io/hold'] !== undefined,
    environments: list(spec?.['environments'])
      .map(object)
      .map((environment) => {
        const name = text(environment['name']) ?? ''
        const targets = list(object(reported[name])['targets']).map(object)
        return {
          name,
          revision: text(targets[0]?.['revision']),
          isReady: targets.length > 0 && targets.every((target) => target['ready'] === true),
          targets: targets.length,
          ready: targets.filter((target) => target['ready'] === true).length,
          error: targets.map((target) => text(target['error'])).find((error) => error !== null) ?? null,
        }
      }),
  }
}
