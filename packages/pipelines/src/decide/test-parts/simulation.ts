// A pipeline in memory for tables of cases: steps of `decide` are executed without a server, effects succeed at once.
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Run } from '@brokkr/contract/pipelines/pipeline-status.ts'
import type { PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import type { PipelineRecord, PromotionRecord, Stored } from '../../objects.ts'
import { decide, type Plan, type Step } from '../decide.ts'
import type { ObservedEnvironment, ObservedTarget } from '../observed.ts'
import type { DecideSettings } from '../policy.ts'
import { beginAttempt, endAttempt, enterPhase, mergeEffect } from '../promotion-status.ts'

export const settings: DecideSettings = {
  defaultTrigger: 'Watch',
  attempts: 10,
  retryMaxMs: 600_000,
  promotionSettleMs: 300_000,
  effectPollMs: 30_000,
  blockPollMsMax: 600_000,
  blockedRetryMs: 1_800_000,
  windows: [],
}

type Seen = string | null

/** `a`: ready on a · `a!`: on a, not ready · null: absent · `unreachable`. */
export function target(seen: Seen, changedAtMs: number | null = null): ObservedTarget {
  const base = { ready: false, revision: null, error: null, problem: null, revisionChangedAtMs: changedAtMs }
  if (seen === 'unreachable') return { ...base, presence: 'indefinite', error: 'not reachable', problem: 'unreachable' }
  if (seen === null) return { ...base, presence: 'absent', error: 'not found', problem: 'app-not-found' }
  const isBusy = seen.endsWith('!')
  return { ...base, presence: 'present', ready: !isBusy, revision: isBusy ? seen.slice(0, -1) : seen }
}

const stored = (name: string, more: Partial<Stored> = {}): Stored => ({
  key: `ns/${name}`,
  namespace: 'ns',
  name,
  uid: 'uid-1',
  resourceVersion: '1',
  generation: 1,
  createdAt: '2026-01-01T00:00:00Z',
  isDeleting: false,
  annotations: {},
  ...more,
})

const names = ['dev', 'staging', 'prod']

export function simulate(more: Omit<Partial<PipelineSpec>, 'environments'> & { environments?: Record<string, object> } = {}) {
  const { environments: extra = {}, ...rest } = more
  const spec: PipelineSpec = {
    appRef: { apiVersion: 'v1', kind: 'Fake', name: 'app' },
    environments: names.map((name) => ({ name, targets: [{ namespace: name }], ...extra[name] })),
    promotion: { strategy: { notification: {} } },
    ...rest,
  }
  const world = {
    spec,
    nowMs: Date.UTC(2026, 0, 1),
    annotations: {} as Record<string, string>,
    run: undefined as Run | undefined,
    promotions: [] as PromotionRecord[],
    /** Targets per environment. */
    seen: { dev: ['a'], staging: ['a'], prod: ['a'] } as Record<string, Seen[]>,
    changedAtMs: null as number | null,
    /** When effects were last read; null: now. */
    effectObservedAtMs: null as number | null,
    plan,
    step,
    settle,
    set: (name: string, ...seen: Seen[]) => void (world.seen[name] = seen),
    phases: () => world.promotions.map(({ spec: of, status }) => `${of.run} ${of.environment} ${of.revision} ${status.phase ?? 'Pending'}`),
    update: (name: string, change: (status: PromotionStatus) => PromotionStatus) => {
      world.promotions = world.promotions.map((each) => (each.name === name ? { ...each, status: change(each.status) } : each))
    },
  }

  function plan(): Plan {
    const observed: ObservedEnvironment[] = spec.environments.map(({ name, targets }) => ({
      name,
      targets: targets.map((_target, index) => target(world.seen[name]?.[index] ?? null, world.changedAtMs)),
    }))
    const pipeline: PipelineRecord = {
      ...stored('p', { annotations: world.annotations }),
      spec: { ok: true, spec },
      status: world.run ? { run: world.run } : {},
      storedStatus: {},
    }
    return decide({
      pipeline,
      spec,
      observed,
      promotions: world.promotions,
      settings,
      nowMs: world.nowMs,
      hasObserver: (strategy) => strategy['pull-request'] !== undefined,
      effectObservedAtMs: () => world.effectObservedAtMs ?? world.nowMs,
      isReadRequested: () => false,
      secretVersion: () => undefined,
    })
  }

  /** Executes one step; effects succeed. */
  function step(): Plan {
    const next = plan()
    execute(next.step)
    return next
  }

  function execute(next: Step): void {
    if (next.do === 'start-run') world.run = next.run
    if (next.do === 'create') world.promotions.push({ ...stored(next.name), spec: next.spec, status: {}, storedStatus: {} })
    if (next.do === 'supersede') world.update(next.promotion.name, () => next.status)
    if (next.do === 'delete') world.promotions = world.promotions.filter(({ name }) => name !== next.promotion.name)
    if (next.do !== 'advance') return
    const { promotion, advance } = next
    if (advance.do === 'write' || advance.do === 'withdraw') world.update(promotion.name, () => advance.status)
    if (advance.do === 'attempt') world.update(promotion.name, (status) => apply(status))
  }

  const apply = (status: PromotionStatus): PromotionStatus =>
    enterPhase(
      mergeEffect(endAttempt(beginAttempt(status, world.nowMs), world.nowMs, { outcome: 'succeeded' }), { kind: 'notification' }),
      'Applied',
      world.nowMs,
    )

  /** Steps until nothing is left to do; the plan of that state. */
  function settle(): Plan {
    for (let steps = 0; steps < 100; steps++) {
      const next = step()
      if (next.step.do === 'nothing') return next
    }
    throw new Error(`no end of steps: ${JSON.stringify(world.phases())}`)
  }
  return world
}
