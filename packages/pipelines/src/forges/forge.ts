// What the pull-request strategy asks of a forge: open or find a pull request, nothing else. One client per forge implements it on
// runtime/http-client/outbound-client.ts; all share one classifier of failures.
import type { ForgeType } from '@brokkr/contract/pipelines/strategy.ts'
import type { AttemptFailure } from '../strategies/strategy.ts'

/** Where the repository is, read from the clone URL (GitLab subgroups are part of the owner; Azure DevOps has a project). */
export interface RepositoryAddress {
  readonly forge: ForgeType
  /** Base address of the API without a slash at its end. */
  readonly apiUrl: string
  readonly host: string
  readonly owner: string
  readonly repository: string
  readonly project: string | null
}

export interface PullRequest {
  readonly number: number
  readonly url: string
  readonly state: 'open' | 'merged' | 'closed'
  readonly title: string
  /** Holds the hidden key: `<!-- brokkr-promotion: {key} -->`. */
  readonly body: string
  readonly head: string
  readonly base: string
  readonly headSha: string | null
  /** Null where the forge does not say, or has not computed it yet. */
  readonly isMergeable: boolean | null
  readonly mergedSha: string | null
  /** Bitbucket Server's version, which its writes must carry. */
  readonly version: number | null
}

export interface NewPullRequest {
  readonly title: string
  readonly body: string
  readonly head: string
  readonly base: string
  readonly labels: readonly string[]
}

/** Every call resolves or throws ForgeError. No call is repeated by the client; the strategy decides. */
export interface Forge {
  readonly type: ForgeType
  /** All states, newest first; at most 100. Without `base`: into any branch. Heads of other repositories (forks) are left out. */
  findPulls(at: { head: string; base?: string }, signal: AbortSignal): Promise<readonly PullRequest[]>
  /** Open ones of any head of this repository, newest first; at most 100. */
  listOpenPulls(base: string, signal: AbortSignal): Promise<readonly PullRequest[]>
  /** `duplicate`: the forge says that one exists (409 or 422); the caller lists again. */
  createPull(pull: NewPullRequest, signal: AbortSignal): Promise<PullRequest | 'duplicate'>
  getPull(number: number, signal: AbortSignal): Promise<PullRequest>
  updatePull(pull: PullRequest, change: { title?: string; body?: string }, signal: AbortSignal): Promise<PullRequest>
  closePull(pull: PullRequest, signal: AbortSignal): Promise<void>
  comment(pull: PullRequest, text: string, signal: AbortSignal): Promise<void>
}

export class ForgeError extends Error {
  override readonly name = 'ForgeError'
  readonly failure: AttemptFailure

  constructor(failure: AttemptFailure) {
    super(failure.message)
    this.failure = failure
  }
}
