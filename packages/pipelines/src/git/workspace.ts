// What the pull-request strategy asks of Git: read marked files of a base branch, build one commit without a work tree, push it with a
// lease. One bare cache repository per URL and credential hash, locked while it is used.
import type { AttemptFailure } from '../strategies/strategy.ts'

export interface GitAccess {
  /** Already checked: https (or http where allowed), no user information, allowed host. */
  readonly url: string
  readonly username: string | null
  readonly password: string | null
  readonly caPem: string | null
}

export interface MarkedFile {
  /** Relative to the repository's root. */
  readonly path: string
  readonly mode: string
  readonly content: Uint8Array
}

export interface CommitInput {
  readonly parentSha: string
  readonly files: readonly MarkedFile[]
  readonly message: string
  readonly author: { readonly name: string; readonly email: string }
  /** Seconds since 1970, +0000; both dates, so that the same input gives the same commit. */
  readonly dateSeconds: number
}

export interface RemoteCommit {
  readonly sha: string
  readonly message: string
  readonly authorName: string
  /** Name, address and date, as the commit stores them. */
  readonly author: string
  readonly committer: string
  readonly parents: readonly string[]
}

/** Every method throws GitError with a classified failure. */
export interface GitWorkspace extends AsyncDisposable {
  /** `fetch --depth=1` of the base branch alone; its commit. */
  fetchBase(branch: string, signal: AbortSignal): Promise<{ readonly sha: string }>
  /** Regular `*.yaml` and `*.yml` files with `"$promotion"`; `paths` are globs, empty: all. */
  listMarkedFiles(at: { sha: string; paths: readonly string[] }, signal: AbortSignal): Promise<readonly MarkedFile[]>
  /** `hash-object`, private index, `write-tree`, `commit-tree`. Null: the tree equals the parent's. */
  commit(input: CommitInput, signal: AbortSignal): Promise<{ readonly sha: string } | null>
  /** Tip of a branch by `ls-remote`, with its message; null: no such branch. */
  readTip(branch: string, signal: AbortSignal): Promise<RemoteCommit | null>
  /** Fetches the parent of a tip; false: the branch moved meanwhile. */
  fetchParent(at: { branch: string; sha: string }, signal: AbortSignal): Promise<boolean>
  /** Whether `ancestor` is the tip or one of its last 100 ancestors. */
  isAncestor(ancestor: string, tip: string, branch: string, signal: AbortSignal): Promise<boolean>
  /** Authors of the branch's commits that are not in the base; at most `max`. */
  listOwnAuthors(at: { branch: string; base: string; max: number }, signal: AbortSignal): Promise<readonly string[]>
  /** `--force-with-lease={branch}:{expected}`; null expects no branch. `lost`: another writer was first. */
  push(at: { branch: string; sha: string; expected: string | null }, signal: AbortSignal): Promise<'pushed' | 'lost'>
  deleteBranch(at: { branch: string; expected: string }, signal: AbortSignal): Promise<'deleted' | 'lost'>
}

export interface GitRepositories {
  /** Waits for the lock of the cache repository; dispose to release it. */
  open(access: GitAccess, signal: AbortSignal): Promise<GitWorkspace>
  close(): Promise<void>
}

export class GitError extends Error {
  override readonly name = 'GitError'
  readonly failure: AttemptFailure

  constructor(failure: AttemptFailure) {
    super(failure.message)
    this.failure = failure
  }
}
