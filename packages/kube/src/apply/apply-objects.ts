// Server-side apply of a set of objects: dry run of the whole set, then writes phase by phase. One outcome per object; completed writes stay
// when a later phase fails.
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { groupKindOf, groupKindText } from '../client/object.ts'
import {
  type ApplyDeps,
  type ApplyItem,
  type ApplyOutcome,
  buildApplyOutcome,
  type DryRunResult,
  dryRunObject,
  failedOutcome,
  type WriteRules,
  writeObject,
} from './apply-object.ts'
import { groupByPhase, type PhaseGroup } from './apply-order.ts'
import { isCrd, readCrdKind, waitForCrd } from './crd.ts'
import { classifyFailure, type Failure } from './failure.ts'

export interface ApplySetOptions extends WriteRules {
  /** Runs a dry run of the whole set before the first write. Default true. */
  dryRun?: boolean | undefined
  /** Number of objects of one phase in parallel. Default 8. */
  concurrency?: number | undefined
  crdWaitMs?: number | undefined
  /** Returns a dry run result that the caller already has for the item. */
  tried?: ((item: ApplyItem) => Promise<DryRunResult | undefined> | undefined) | undefined
  /** Called for each outcome, in order of completion, so that the caller knows what was written when the signal aborts. */
  onOutcome?: ((outcome: ApplyOutcome) => void) | undefined
}

export interface ApplyReport {
  /** In the order of the items. */
  outcomes: ApplyOutcome[]
  ok: boolean
  /** A dry run failed before the first write. */
  refused: boolean
}

export async function applyObjects(deps: ApplyDeps, items: readonly ApplyItem[], options: ApplySetOptions): Promise<ApplyReport> {
  const run = new Run(deps, items, options)
  if (options.dryRun !== false && !(await run.tryAll())) return run.report(true)
  for (const phase of groupByPhase(items, (item) => item.object)) if (!(await run.write(phase))) break
  return run.report(false)
}

/** State of one apply: dry run results and outcomes by item. */
class Run {
  readonly #deps: ApplyDeps
  readonly #items: readonly ApplyItem[]
  readonly #options: ApplySetOptions
  readonly #trials = new Map<ApplyItem, DryRunResult>()
  readonly #outcomes = new Map<ApplyItem, ApplyOutcome>()
  readonly #newNamespaces = new Set<string>()
  readonly #newKinds = new Set<string>()

  constructor(deps: ApplyDeps, items: readonly ApplyItem[], options: ApplySetOptions) {
    this.#deps = deps
    this.#items = items
    this.#options = options
  }

  /** Writes namespaces and CRDs first, because a dry run of objects in them needs them. */
  async tryAll(): Promise<boolean> {
    const grounds = groupByPhase(this.#items, (item) => item.object).filter(({ phase }) => phase <= 2)
    for (const { items } of grounds) await this.#try(items)
    for (const [item, trial] of this.#trials) if (trial.found === 'change') this.#noteGround(item, trial.state.created)
    const rest = this.#items.filter((item) => !this.#trials.has(item) && !this.#standsOnNewGround(item))
    await this.#try(rest)
    return this.#outcomes.size === 0
  }

  async write({ phase, items }: PhaseGroup<ApplyItem>): Promise<boolean> {
    if (this.#options.dryRun !== false) await this.#try(items.filter((item) => !this.#trials.has(item)))
    if (this.#failed) return false
    await this.#each(items, (item) => this.#writeOne(item))
    if (phase === 2 && !this.#failed) await this.#each(items, (item) => this.#waitForCrd(item))
    return !this.#failed
  }

  report(refused: boolean): ApplyReport {
    const outcomes = this.#items.map((item) => this.#outcomes.get(item) ?? buildApplyOutcome(item, 'skipped'))
    return { outcomes, ok: outcomes.every(({ action }) => action !== 'failed' && action !== 'skipped'), refused }
  }

  get #failed(): boolean {
    return [...this.#outcomes.values()].some(({ action }) => action === 'failed')
  }

  async #try(items: readonly ApplyItem[]): Promise<void> {
    await this.#each(items, async (item) => {
      const trial = (await this.#options.tried?.(item)) ?? (await this.#tryOne(item))
      this.#trials.set(item, trial)
      if (trial.found === 'failure') this.#record(item, failedOutcome(item, trial.failure))
    })
  }

  #tryOne(item: ApplyItem): Promise<DryRunResult> {
    return this.#settled(item, async () => {
      const dryRun = await dryRunObject(this.#deps, item, this.#options)
      return { value: dryRun, failure: dryRun.found === 'failure' ? dryRun.failure : undefined }
    })
  }

  async #writeOne(item: ApplyItem): Promise<void> {
    const outcome = await this.#settled(item, async () => {
      const value = await writeObject(this.#deps, item, this.#trials.get(item), this.#options)
      return { value, failure: value.failure }
    })
    this.#noteGround(item, outcome.action === 'created')
    this.#record(item, outcome)
  }

  async #waitForCrd(item: ApplyItem): Promise<void> {
    if (!isCrd(item.object)) return
    try {
      await waitForCrd(this.#deps, item.object, { limitMs: this.#options.crdWaitMs ?? 60_000, signal: this.#options.signal })
    } catch (error) {
      this.#options.signal?.throwIfAborted()
      this.#record(item, failedOutcome(item, { ...classifyFailure(error), code: 'crd', retryable: true }))
    }
  }

  #noteGround({ object }: ApplyItem, created: boolean): void {
    if (object.kind === 'Namespace' && object.apiVersion === 'v1' && created) this.#newNamespaces.add(object.metadata.name)
    // A changed CRD counts too: its resources may use fields that only the new version allows.
    if (isCrd(object)) this.#newKinds.add(groupKindText(readCrdKind(object)))
  }

  #standsOnNewGround({ object }: ApplyItem): boolean {
    return this.#newNamespaces.has(object.metadata.namespace ?? '') || this.#newKinds.has(groupKindText(groupKindOf(object)))
  }

  /** The API server's caches lag behind a new namespace (its ServiceAccount) or a new kind (its path). */
  async #settled<T>(item: ApplyItem, attempt: () => Promise<{ value: T; failure: Failure | undefined }>): Promise<T> {
    for (let tries = 0; ; tries++) {
      const { value, failure } = await attempt()
      if (!failure || tries >= SETTLE_TRIES || !this.#standsOnNewGround(item) || !isUnsettled(failure)) return value
      await this.#deps.clock.sleep(SETTLE_PAUSE_MS, this.#options.signal)
    }
  }

  #record(item: ApplyItem, outcome: ApplyOutcome): void {
    this.#outcomes.set(item, outcome)
    this.#options.onOutcome?.(outcome)
  }

  async #each(items: readonly ApplyItem[], work: (item: ApplyItem) => Promise<void>): Promise<void> {
    await mapBounded(items, this.#options.concurrency ?? 8, work, this.#options.signal)
  }
}

const SETTLE_TRIES = 50
const SETTLE_PAUSE_MS = 100

const isUnsettled = (failure: Failure): boolean =>
  failure.code === 'missing_kind' ||
  failure.code === 'missing_namespace' ||
  /error looking up service account|serviceaccount "[^"]*" not found/.test(failure.message)
