// What one attempt works with: checked address, Secret, Git workspace and forge. Opened before and closed after each use.
import type { PullRequestStrategy } from '@brokkr/contract/pipelines/strategy.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Outbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import { type Forge, ForgeError } from '../forges/forge.ts'
import type { ForgeAnswers } from '../forges/forge-answers.ts'
import { openForge } from '../forges/index.ts'
import { toRepositoryAddress } from '../forges/repository-address.ts'
import { MarkerError } from '../git/markers.ts'
import { type GitAccess, GitError, type GitRepositories, type GitWorkspace } from '../git/workspace.ts'
import type { AttemptFailure, AttemptInput, SecretContent } from './strategy.ts'

export interface PullRequestDeps {
  readonly git: GitRepositories
  readonly clock: Clock
  /** A client that trusts this authority (PEM) besides the usual ones. */
  openOutbound(caPem: string | null): Outbound
  readonly onForgeAnswer?: (forge: string, status: number) => void
  readonly answers?: ForgeAnswers
  readonly settings: { readonly allowInsecure: boolean; readonly allowedHosts: readonly string[] }
}

export interface Session {
  readonly input: AttemptInput
  readonly spec: PullRequestStrategy
  readonly git: GitWorkspace
  readonly forge: Forge
  readonly now: () => number
  /** What was read; a block ends when it changes. */
  readonly seen: { secretVersion?: string; baseSha?: string }
}

/** Failures of a known kind are returned, with what was read until then. */
export async function withSession<T>(
  deps: PullRequestDeps,
  input: AttemptInput,
  work: (session: Session) => Promise<T>,
): Promise<T | AttemptFailure> {
  const seen: Session['seen'] = {}
  try {
    return await openSession(deps, input, seen, work)
  } catch (error) {
    const failure = failureOf(error)
    if (failure === null) throw error
    return failure.class === 'configuration' ? { ...failure, blockedOn: seen } : failure
  }
}

export const configurationError = (reason: string, message: string): ForgeError =>
  new ForgeError({ outcome: 'failed', class: 'configuration', reason, message })

function failureOf(error: unknown): AttemptFailure | null {
  if (error instanceof GitError || error instanceof ForgeError) return error.failure
  if (error instanceof MarkerError) return { outcome: 'failed', class: 'configuration', reason: error.reason, message: error.message }
  return null
}

async function openSession<T>(
  deps: PullRequestDeps,
  input: AttemptInput,
  seen: Session['seen'],
  work: (session: Session) => Promise<T>,
): Promise<T> {
  const spec = input.promotion.spec.strategy['pull-request']!
  const address = toRepositoryAddress({ type: spec.type, url: spec.url, apiUrl: spec.apiUrl, ...deps.settings })
  const secret = await input.readSecret(spec.secretRef.name)
  // An absent Secret has an empty version, so that its creation ends the block.
  seen.secretVersion = secret?.version ?? ''
  if (secret === null) throw configurationError('SecretNotFound', `the Secret "${spec.secretRef.name}" does not exist`)
  const token = textOf(secret, 'token')
  if (token === null) throw configurationError('SecretIncomplete', `the Secret "${spec.secretRef.name}" has no key "token"`)
  const access = accessOf(spec.url, secret)
  const outbound = deps.openOutbound(access.caPem)
  try {
    const onAnswer = (status: number) => deps.onForgeAnswer?.(address.forge, status)
    const now = () => deps.clock.now()
    const forge = openForge({ outbound, now, onAnswer, answers: deps.answers }, address, token)
    await using git = await deps.git.open(access, input.signal)
    return await work({ input, spec, git, forge, now, seen })
  } finally {
    await outbound.close()
  }
}

const accessOf = (url: string, secret: SecretContent): GitAccess => ({
  url,
  username: textOf(secret, 'username'),
  password: textOf(secret, 'password'),
  caPem: textOf(secret, 'caFile') ?? textOf(secret, 'ca.crt'),
})

function textOf({ data }: SecretContent, name: string): string | null {
  const value = data[name]
  const text = value === undefined ? '' : Buffer.from(value).toString('utf8').trim()
  return text === '' ? null : text
}
