// A Pipeline whose promotions open pull requests in a real Gitea: applications in dev and prod, and a repository with a marker.
import { randomBytes } from 'node:crypto'
import type { PipelineSpec } from '@brokkr/contract/pipelines/pipeline-spec.ts'
import type { Gitea } from '@brokkr/testing/servers/gitea.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { onTestFinished } from 'vitest'
import { marked } from './forge-world.ts'
import { openPipeline, type Server, setRelease } from './world.ts'

interface GiteaPull {
  readonly number: number
  readonly html_url: string
  readonly state: string
  readonly merged: boolean
  readonly title: string
  readonly body: string
  readonly head: { readonly ref: string }
  readonly base: { readonly ref: string }
}

/** A new repository and what a person does in it, by the API. */
async function createRepository({ url, owner, token }: Gitea) {
  const name = `deploy-${randomBytes(6).toString('hex')}`
  const ask = async <T>(method: string, path: string, body?: object): Promise<T> => {
    const answer = await fetch(`${url}/api/v1${path}`, {
      method,
      headers: { authorization: `token ${token}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`Gitea answered ${answer.status} to ${method} ${path}: ${text.slice(0, 500)}`)
    return (/json/.test(answer.headers.get('content-type') ?? '') ? JSON.parse(text) : text) as T
  }
  await ask('POST', '/user/repos', { name, private: true, auto_init: true, default_branch: 'main' })
  const root = `/repos/${owner}/${name}`
  const readFile = (path: string, ref: string) =>
    ask<{ content: string; sha: string }>('GET', `${root}/contents/${path}?ref=${encodeURIComponent(ref)}`)
  return {
    cloneUrl: `${url}/${owner}/${name}.git`,
    pulls: () => ask<GiteaPull[]>('GET', `${root}/pulls?state=all`).then((pulls) => pulls.toSorted((a, b) => a.number - b.number)),
    comments: (number: number) =>
      ask<{ body: string }[]>('GET', `${root}/issues/${number}/comments`).then((all) => all.map(({ body }) => body)),
    diff: (number: number) => ask<string>('GET', `${root}/pulls/${number}.diff`),
    merge: (number: number) => ask('POST', `${root}/pulls/${number}/merge`, { Do: 'merge' }),
    close: (number: number) => ask('PATCH', `${root}/pulls/${number}`, { state: 'closed' }),
    branches: () => ask<{ name: string }[]>('GET', `${root}/branches`).then((all) => all.map(({ name: branch }) => branch)),
    read: async (path: string, ref: string) => Buffer.from((await readFile(path, ref)).content, 'base64').toString('utf8'),
    /** The commit at the tip of a branch. */
    tip: (branch: string) =>
      ask<{ commit: { id: string; message: string; author: { name: string; email: string }; timestamp: string } }>(
        'GET',
        `${root}/branches/${branch}`,
      ).then(({ commit }) => commit),
    createBranch: (branch: string) => ask('POST', `${root}/branches`, { new_branch_name: branch, old_branch_name: 'main' }),
    async write(path: string, content: string, branch = 'main'): Promise<void> {
      const before = await readFile(path, branch).catch(() => null)
      const body = { branch, message: `Write ${path}`, content: Buffer.from(content).toString('base64') }
      await ask(before === null ? 'POST' : 'PUT', `${root}/contents/${path}`, { ...body, ...(before === null ? {} : { sha: before.sha }) })
    },
  }
}

export async function openGiteaStages(
  server: Server,
  gitea: Gitea,
  options: { readonly policy?: PipelineSpec['policy']; readonly token?: string; readonly content?: (owner: string) => string } = {},
) {
  const { kube, plane } = server
  const [namespace, repository] = await Promise.all([plane.namespace(), createRepository(gitea)])
  const owner = `${namespace}:podinfo:prod`
  await repository.write('release.yaml', (options.content ?? ((name) => marked('5.0.0', name)))(owner))
  await repository.write('other.yaml', 'a: 1\n')
  const namespaces = { dev: await plane.namespace('dev'), prod: await plane.namespace('prod') }
  const setSecret = async (token: string): Promise<void> => {
    const content = { username: gitea.owner, password: gitea.token, token }
    const data = Object.fromEntries(Object.entries(content).map(([key, value]) => [key, Buffer.from(value).toString('base64')]))
    await kube.apply(
      { apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name: 'git' }, data },
      { fieldManager: 'test', force: true },
    )
  }
  const pullRequest = { type: 'gitea', url: repository.cloneUrl, baseBranch: 'main', secretRef: { name: 'git' } } as const
  const pipeline = await openPipeline(
    server,
    {
      environments: (['dev', 'prod'] as const).map((stage) => ({ name: stage, targets: [{ namespace: namespaces[stage] }] })),
      promotion: { strategy: { 'pull-request': pullRequest } },
      ...(options.policy === undefined ? {} : { policy: options.policy }),
    },
    { namespace },
  )
  const move = (stage: 'dev' | 'prod', to: string) => setRelease(kube, namespaces[stage], to)
  await Promise.all([setSecret(options.token ?? gitea.token), move('dev', '5.0.0'), move('prod', '5.0.0')])
  await pipeline.createSettled('5.0.0')
  onTestFinished(async () => void (await pipeline.delete()))
  await waitFor('run 1', async () => (await pipeline.read()).status.run?.number === 1)
  const newest = async () => (await pipeline.promotions()).at(-1)!
  return {
    ...pipeline,
    repository,
    owner,
    setSecret,
    move,
    newest,
    /** Moves dev and waits for the open pull request. */
    async promote(revision: string) {
      await move('dev', revision)
      await waitFor(
        'the pull request',
        async () => (await newest()).spec.revision === revision && (await newest()).status.effect?.prNumber,
        {
          limitMs: 60_000,
          onTimeout: async () => JSON.stringify((await pipeline.promotions()).map(({ status }) => status)),
        },
      )
      return newest()
    },
  }
}
