// What a strategy is: it brings one promotion's revision into one environment, once. The controller records before it calls a strategy
// and writes what the strategy returns; a strategy writes no Kubernetes record itself.
import type { Effect, FailureClass } from '@brokkr/contract/pipelines/promotion.ts'
import type { Strategy as StrategySpec } from '@brokkr/contract/pipelines/strategy.ts'
import type { PromotionRecord } from '../objects.ts'

/** One target of the promotion's environment, in spec order. */
export interface StrategyTarget {
  readonly namespace: string
  readonly clusterName: string | null
  /** Stack name of the stack strategy. */
  readonly stack: string
}

/** A Secret beside the Pipeline. `version` changes with its content. */
export interface SecretContent {
  readonly version: string
  readonly data: Readonly<Record<string, Uint8Array>>
}

export interface AttemptInput {
  readonly promotion: PromotionRecord
  readonly pipeline: { readonly namespace: string; readonly name: string; readonly uid: string }
  readonly targets: readonly StrategyTarget[]
  /** Targets of the environments before this one, in order: where the stack strategy looks for an object to copy. */
  readonly earlierTargets: readonly StrategyTarget[]
  /** Reads a Secret beside the Pipeline at each attempt; null: it does not exist. */
  readSecret(name: string): Promise<SecretContent | null>
  /** Keys of all promotions of the Pipeline that have not ended, read directly. */
  listOpenKeys(): Promise<ReadonlySet<string>>
  /** Commits in the records of all promotions of the Pipeline, read directly. */
  listCommits(): Promise<ReadonlySet<string>>
  /**
   * Writes a part of the effect before the next effect (W3) and looks for a newer run by a direct read. `stop`: the promotion was
   * superseded, aborted or taken by a newer leader; the strategy must return `{ outcome: 'stopped' }` without a further effect.
   */
  saveProgress(effect: Effect): Promise<'continue' | 'stop'>
  /** Aborted at the time limit of the attempt, when the Lease is lost, and at shutdown. */
  readonly signal: AbortSignal
}

/** `applied`: the effect is complete, or nothing was left to change (kind `none`). `abandoned`: a user closed the pull request. */
export type AttemptResult =
  | { readonly outcome: 'applied' | 'abandoned'; readonly effect: Effect }
  | { readonly outcome: 'stopped' }
  | AttemptFailure

export interface AttemptFailure {
  readonly outcome: 'failed'
  readonly class: FailureClass
  /** One word in CamelCase: `MarkerNotFound`, `InvalidRepositoryURL`. It becomes the reason of a Blocked promotion. */
  readonly reason: string
  /** For a user; without credentials. */
  readonly message: string
  /** rate-limited: not before this time. */
  readonly retryAfterMs?: number | undefined
  /** configuration: what was read, so that a change of it ends the block. */
  readonly blockedOn?: { readonly secretVersion?: string | undefined; readonly baseSha?: string | undefined } | undefined
}

/** What became of an effect since: only strategies whose effect goes on living (a pull request) have it. */
export interface EffectObserver {
  /** Reads the effect again (E3) and, where the base moved, renews it. Called every 30 s and on wake-ups while the promotion is Applied. */
  observe(input: AttemptInput): Promise<{ readonly outcome: 'observed'; readonly effect: Effect } | AttemptFailure>
  /** Ends an open effect: close, comment, delete our branch. `comment` is plain text. Merged meanwhile: nothing is closed. */
  withdraw(input: AttemptInput, comment: string): Promise<{ readonly outcome: 'withdrawn'; readonly effect: Effect } | AttemptFailure>
  /** The commit at the base branch: a block on its content ends when it changes. */
  readBase(input: AttemptInput): Promise<{ readonly outcome: 'read'; readonly baseSha: string } | AttemptFailure>
  /** Removes what a promotion that ended left behind, such as its branch. `kept`: it is still in use. */
  clean(input: AttemptInput): Promise<{ readonly outcome: 'cleaned' | 'kept' } | AttemptFailure>
}

export interface Strategy {
  readonly kind: 'pull-request' | 'notification' | 'stack'
  /** A present object selects the strategy, an absent one does not. */
  handles(spec: StrategySpec): boolean
  /**
   * One attempt. Must be safe to repeat after a crash at any await: every effect is found again by the promotion's key.
   * Expected failures are returned; a throw counts as transient.
   */
  run(input: AttemptInput): Promise<AttemptResult>
  readonly observer?: EffectObserver
  /** The change that an attempt would make now, as a unified diff; nothing is written. */
  preview?(input: Omit<AttemptInput, 'saveProgress'>): Promise<{ readonly outcome: 'previewed'; readonly diff: string } | AttemptFailure>
}
