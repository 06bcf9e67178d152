// A Git server with one repository and a forge on the same host, and the pull-request strategy that uses them.
import type { Effect } from '@brokkr/contract/pipelines/promotion.ts'
import type { PullRequestStrategy } from '@brokkr/contract/pipelines/strategy.ts'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { createOutbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import { TestForge } from '@brokkr/testing/servers/forge.ts'
import type { ForgeKind } from '@brokkr/testing/servers/forge-dialects.ts'
import { type GitServerOptions, gitServer } from '@brokkr/testing/servers/git-server.ts'
import { promotionKey, promotionName } from '../decide/promotion-key.ts'
import { ForgeAnswers } from '../forges/forge-answers.ts'
import { openGitRepositories } from '../git/repositories.ts'
import type { PromotionRecord } from '../objects.ts'
import { pullRequestStrategy } from '../strategies/pull-request.ts'
import type { AttemptInput, AttemptResult, Strategy } from '../strategies/strategy.ts'

export const marked = (value: string, owner = 'shop:podinfo:prod'): string => `spec:\n    tag: ${value} # {"$promotion": "${owner}"}\n`

export interface ForgeWorldOptions {
  readonly kind?: ForgeKind
  readonly owner?: string
  readonly hasTls?: boolean
  readonly base?: string
  readonly files?: Record<string, string>
  readonly gitFault?: GitServerOptions['fault']
}

/** The real strategy, with a cache of its own. `opened`: addresses for which git was started. */
export async function openPullRequests(): Promise<{ strategy: Strategy; readonly opened: readonly string[]; close(): Promise<void> }> {
  const opened: string[] = []
  const git = await openGitRepositories({ cacheDir: null, timeoutMs: 30_000, bytesMax: 1 << 26, allowInsecure: true })
  const strategy = pullRequestStrategy({
    git: {
      ...git,
      open: (access, signal) => {
        opened.push(access.url)
        return git.open(access, signal)
      },
    },
    clock,
    openOutbound: (caPem) => createOutbound({}, { allow: { cidrs: ['127.0.0.0/8'] }, ca: caPem === null ? [] : [caPem] }),
    answers: new ForgeAnswers(),
    settings: { allowInsecure: true, allowedHosts: [] },
  })
  return { strategy, opened, close: () => git.close() }
}

/** A repository behind a Git server, with its forge, and what a Pipeline needs to use them. */
export async function openForgeSite(options: ForgeWorldOptions = {}) {
  const kind = options.kind ?? 'github'
  const base = options.base ?? 'main'
  const auth = { username: 'bot', password: 'git-word' }
  const forge = new TestForge({ kind, token: 'api-token', owner: options.owner ?? 'acme', project: 'proj', name: 'deploy' })
  const fault = options.gitFault === undefined ? {} : { fault: options.gitFault }
  const server = await gitServer({ auth, api: forge.handle, hasTls: options.hasTls ?? false, ...fault })
  const repository = await server.createRepository(forge.clonePath)
  forge.repository = repository
  forge.webUrl = server.url
  await repository.commit(options.files ?? { 'release.yaml': marked('5.0.0'), 'other.yaml': 'a: 1\n' }, { branch: base })
  const secret: Record<string, string> = { ...auth, token: 'api-token', ...(server.caPem === null ? {} : { caFile: server.caPem }) }
  const pullRequest: PullRequestStrategy = {
    type: kind,
    url: `${server.url}${forge.clonePath}`,
    baseBranch: base,
    secretRef: { name: 'git' },
  }
  return { forge, server, repository, secret, pullRequest, close: () => server.close() }
}
export type ForgeSite = Awaited<ReturnType<typeof openForgeSite>>

export async function openForgeWorld(options: ForgeWorldOptions = {}) {
  const [site, pullRequests] = await Promise.all([openForgeSite(options), openPullRequests()])
  const { strategy } = pullRequests
  return {
    ...site,
    strategy,
    promotion: (more?: PromotionOptions) => new TestPromotion(strategy, site.pullRequest, site.secret, more),
    async close() {
      await pullRequests.close()
      await site.close()
    },
  }
}

export interface PromotionOptions {
  readonly run?: number
  readonly revision?: string
  readonly supersede?: 'Close' | 'Update' | 'Queue'
  readonly pipeline?: { namespace: string; name: string }
  readonly spec?: Partial<PullRequestStrategy>
}

/** Of all test promotions whose records have not ended. */
const keys = new Set<string>()
/** Of the records of all test promotions. */
const commits = new Set<string>()

/** One promotion whose record is kept in memory; `forget` is a crash before the record was written. */
class TestPromotion {
  readonly #strategy: Strategy
  readonly #secret: Record<string, string>
  record: PromotionRecord
  hasNewerRun = false

  constructor(strategy: Strategy, pullRequest: PullRequestStrategy, secret: Record<string, string>, options: PromotionOptions = {}) {
    this.#strategy = strategy
    this.#secret = secret
    const run = options.run ?? 1
    const { namespace, name: pipeline } = options.pipeline ?? { namespace: 'shop', name: 'podinfo' }
    const identity = { pipelineUid: `uid-${namespace}-${pipeline}`, environment: 'prod', run, series: 1 }
    const name = promotionName(pipeline, identity)
    this.record = {
      key: `${namespace}/${name}`,
      namespace,
      name,
      uid: name,
      resourceVersion: '1',
      generation: 1,
      createdAt: '2026-01-02T03:04:05Z',
      isDeleting: false,
      annotations: {},
      storedStatus: {},
      status: {},
      spec: {
        pipelineRef: { name: pipeline, uid: identity.pipelineUid },
        run,
        environment: 'prod',
        revision: options.revision ?? '6.0.0',
        series: 1,
        key: promotionKey(identity),
        previousRevisions: ['5.0.0'],
        cause: { kind: 'detected' },
        strategy: { 'pull-request': { ...pullRequest, ...options.spec } },
        supersede: options.supersede ?? 'Close',
        attempts: 10,
        attemptAge: '24h',
        soak: '0s',
      },
    }
    keys.add(this.record.spec.key)
  }

  get effect(): Effect {
    return this.record.status.effect ?? {}
  }

  /** Its record is in a terminal phase. */
  end(): void {
    keys.delete(this.record.spec.key)
  }

  forget(): void {
    this.record = { ...this.record, status: {} }
  }

  async run(): Promise<AttemptResult> {
    const result = await this.#strategy.run(this.#input())
    if ('effect' in result) this.#save(result.effect)
    return result
  }

  async observe() {
    const result = await this.#strategy.observer!.observe(this.#input())
    if ('effect' in result) this.#save(result.effect)
    return result
  }

  async withdraw(comment: string) {
    const result = await this.#strategy.observer!.withdraw(this.#input(), comment)
    if ('effect' in result) this.#save(result.effect)
    return result
  }

  clean() {
    return this.#strategy.observer!.clean(this.#input())
  }

  /** A crash before this effect was recorded. */
  restore(effect: Effect): void {
    this.record = { ...this.record, status: { effect } }
  }

  #save(effect: Effect): void {
    if (effect.commitSha !== undefined) commits.add(effect.commitSha)
    this.record = { ...this.record, status: { effect: { ...this.effect, ...effect } } }
  }

  #input(): AttemptInput {
    return {
      promotion: this.record,
      pipeline: { namespace: this.record.namespace, name: this.record.spec.pipelineRef.name, uid: this.record.spec.pipelineRef.uid },
      targets: [],
      earlierTargets: [],
      listOpenKeys: () => Promise.resolve(keys),
      listCommits: () => Promise.resolve(commits),
      readSecret: () =>
        Promise.resolve({
          version: '1',
          data: Object.fromEntries(Object.entries(this.#secret).map(([name, value]) => [name, Buffer.from(value)])),
        }),
      saveProgress: (effect) => {
        this.#save(effect)
        return Promise.resolve(this.hasNewerRun ? 'stop' : 'continue')
      },
      signal: new AbortController().signal,
    }
  }
}
