// What a failed run of git means for the attempt. Pure. Its texts are in English (LC_ALL=C) and stable over many versions.
import { redactText } from '@brokkr/runtime/logging/redact-text.ts'
import type { AttemptFailure } from '../strategies/strategy.ts'
import type { GitOutput } from './run-git.ts'

const PATTERNS: readonly { pattern: RegExp; class: AttemptFailure['class']; reason: string; what: string }[] = [
  {
    pattern: /Authentication failed|could not read (Username|Password)|returned error: 40[13]\b|HTTP 40[13]\b/,
    class: 'configuration',
    reason: 'AuthenticationFailed',
    what: 'authentication failed',
  },
  {
    pattern: /repository '[^']*' not found|returned error: 404\b|HTTP 404\b/,
    class: 'configuration',
    reason: 'RepositoryNotFound',
    what: 'the repository was not found',
  },
  {
    pattern: /couldn't find remote ref/i,
    class: 'configuration',
    reason: 'BranchNotFound',
    what: 'the branch was not found',
  },
  {
    pattern: /redirect|returned error: 30\d\b|HTTP 30\d\b/i,
    class: 'configuration',
    reason: 'RepositoryMoved',
    what: 'the repository answers with a redirect, which is not followed',
  },
  {
    pattern: /transport '[^']*' not allowed/,
    class: 'configuration',
    reason: 'InvalidRepositoryURL',
    what: 'only https is allowed',
  },
  {
    pattern: /returned error: 429\b|HTTP 429\b/,
    class: 'rate-limited',
    reason: 'RateLimited',
    what: 'the Git server limits the rate of requests',
  },
  {
    pattern: /SSL certificate problem|server certificate verification failed|no alternative certificate subject name/,
    class: 'configuration',
    reason: 'CertificateRefused',
    what: 'the certificate of the Git server is not trusted',
  },
  {
    pattern: /\[remote rejected\]/,
    class: 'refusal',
    reason: 'PushDeclined',
    what: 'the Git server declined the push',
  },
]

export function classifyGitFailure(output: Pick<GitOutput, 'stderr' | 'killedBy'> & { stdout?: Buffer }, url: string): AttemptFailure {
  if (output.killedBy === 'timeout') return failure('transient', 'GitTimeout', `${url}: git did not end within its time limit`)
  if (output.killedBy !== null) return failure('configuration', 'RepositoryTooLarge', `${url}: the repository is over the size limit`)
  const text = `${output.stderr}\n${output.stdout?.toString('utf8') ?? ''}`
  const found = PATTERNS.find(({ pattern }) => pattern.test(text))
  if (found !== undefined) return failure(found.class, found.reason, `${url}: ${found.what}`)
  return failure('transient', 'GitFailed', `${url}: ${lastLine(output.stderr)}`)
}

const failure = (kind: AttemptFailure['class'], reason: string, message: string): AttemptFailure => ({
  outcome: 'failed',
  class: kind,
  reason,
  message: redactText(message),
})

const lastLine = (text: string): string =>
  text
    .split('\n')
    .map((line) => line.replace(/^(fatal|error): /, '').trim())
    .findLast((line) => line !== '') ?? 'git failed without a message'

/** A push that was refused because the branch is not what we saw: another writer was first. */
export const isLeaseLost = (text: string): boolean =>
  /\(stale info\)|\[remote rejected\].*\((cannot lock ref|failed to update ref|reference already exists|incorrect old value|fetch first)/.test(
    text,
  )

/** A branch name that git accepts and that cannot be taken for an option. */
export function isSafeBranch(branch: string): boolean {
  // oxlint-disable-next-line no-control-regex
  if (branch === '' || branch.length > 255 || /[\0-\x20\x7f~^:?*[\\]|\.\.|@\{|\/\/|^[-/.]|[/.]$|\/\./.test(branch)) return false
  return !branch.split('/').some((part) => part.endsWith('.lock')) && branch !== '@'
}
