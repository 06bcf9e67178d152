// A Pipeline whose promotions open pull requests: applications in dev and prod, a repository with markers, and its forge.
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { PullRequestStrategy } from '@brokkr/contract/pipelines/strategy.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { onTestFinished } from 'vitest'
import { type ForgeSite, type ForgeWorldOptions, marked, openForgeSite } from './forge-world.ts'
import { ensureNamespace, openPipeline, type Server, setRelease } from './world.ts'

export interface ForgeStagesOptions extends Omit<ForgeWorldOptions, 'files'> {
  readonly at?: { readonly namespace: string; readonly name: string }
  /** Files of the repository, given the owner in markers (`namespace:pipeline:prod`). */
  readonly files?: (owner: string) => Record<string, string>
  readonly strategy?: Partial<PullRequestStrategy>
  readonly secret?: Record<string, string | undefined>
  readonly policy?: PipelineSpec['policy']
  readonly manual?: boolean
  /** Revision of both environments at the start. */
  readonly revision?: string
  /** Site that several Pipelines share. */
  readonly site?: ForgeSite
}

export async function openForgeStages(server: Server, options: ForgeStagesOptions = {}) {
  const { kube, plane } = server
  const { name = 'podinfo', namespace = await plane.namespace() } = options.at ?? {}
  await ensureNamespace(kube, namespace)
  const owner = `${namespace}:${name}:prod`
  const { files = defaultFiles, revision = '5.0.0' } = options
  const site = options.site ?? (await openForgeSite({ ...options, files: files(owner) }))
  const namespaces = { dev: await plane.namespace('dev'), prod: await plane.namespace('prod') }
  const pipeline = await openPipeline(
    server,
    {
      environments: (['dev', 'prod'] as const).map((stage) => ({ name: stage, targets: [{ namespace: namespaces[stage] }] })),
      promotion: {
        ...(options.manual === true ? { manual: true } : {}),
        strategy: { 'pull-request': { ...site.pullRequest, secretRef: { name: `git-${name}` }, ...options.strategy } },
      },
      ...(options.policy === undefined ? {} : { policy: options.policy }),
    },
    { name, namespace },
  )
  const setSecret = async (more: Record<string, string | undefined> = {}): Promise<void> => {
    const data = Object.entries({ ...site.secret, ...more }).flatMap(([key, value]) =>
      value === undefined ? [] : [[key, Buffer.from(value).toString('base64')] as const],
    )
    const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name: `git-${name}` }, data: Object.fromEntries(data) }
    await kube.apply(secret, { fieldManager: 'test', force: true })
  }
  const move = (stage: 'dev' | 'prod', to: string, ready = true) => setRelease(kube, namespaces[stage], to, ready)
  await Promise.all([setSecret(options.secret), move('dev', revision), move('prod', revision)])
  await pipeline.createSettled(revision)
  // The controller stops to poll pull requests of a server that has ended.
  onTestFinished(async () => {
    await pipeline.delete()
    if (options.site === undefined) await site.close()
  })
  await waitFor('run 1', async () => (await pipeline.read()).status.run?.number === 1)
  return {
    ...pipeline,
    ...site,
    owner,
    namespaces,
    setSecret,
    move,
    /** Branches other than the base. */
    branches: async () => (await site.repository.branches()).filter((branch) => branch !== site.pullRequest.baseBranch),
    newest: async () => {
      const newest = (await pipeline.promotions()).at(-1)
      if (newest === undefined) throw new Error('there is no promotion')
      return newest
    },
  }
}

const defaultFiles = (owner: string): Record<string, string> => ({ 'release.yaml': marked('5.0.0', owner), 'other.yaml': 'a: 1\n' })
