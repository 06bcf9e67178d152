// Azure DevOps. Every request names its API version.
import { z } from 'zod'
import type { Forge, PullRequest, RepositoryAddress } from './forge.ts'
import type { ForgeHttp, Query } from './forge-http.ts'

const Commit = z.object({ commitId: z.string() }).nullish()
const Pull = z.object({
  pullRequestId: z.int(),
  status: z.enum(['active', 'abandoned', 'completed']),
  title: z.string(),
  description: z.string().nullish(),
  sourceRefName: z.string(),
  targetRefName: z.string(),
  mergeStatus: z.string().nullish(),
  lastMergeSourceCommit: Commit,
  lastMergeCommit: Commit,
  url: z.string(),
  repository: z.object({ webUrl: z.string().nullish() }).nullish(),
  /** Where the head is in a fork. */
  forkSource: z.object({}).nullish(),
})

const STATES = { active: 'open', abandoned: 'closed', completed: 'merged' } as const
const HEADS = 'refs/heads/'
const VERSION = { 'api-version': '7.1' }
const DESCRIPTION_MAX = 4000

const branchOf = (ref: string): string => (ref.startsWith(HEADS) ? ref.slice(HEADS.length) : ref)

const toPull = (pull: z.output<typeof Pull>): PullRequest => ({
  number: pull.pullRequestId,
  url: pull.repository?.webUrl ? `${pull.repository.webUrl}/pullrequest/${pull.pullRequestId}` : pull.url,
  state: STATES[pull.status],
  title: pull.title,
  body: pull.description ?? '',
  head: branchOf(pull.sourceRefName),
  base: branchOf(pull.targetRefName),
  headSha: pull.lastMergeSourceCommit?.commitId ?? null,
  isMergeable: pull.mergeStatus === 'succeeded' ? true : pull.mergeStatus === 'conflicts' ? false : null,
  mergedSha: pull.status === 'completed' ? (pull.lastMergeCommit?.commitId ?? null) : null,
  version: null,
})

/** The key stands at the end of the body, so the middle is cut. */
const cut = (body: string): string => (body.length <= DESCRIPTION_MAX ? body : `${body.slice(0, 2000)}\n…\n${body.slice(-1900)}`)

export function azureDevopsForge(http: ForgeHttp, { repository }: RepositoryAddress): Forge {
  const root = `/repositories/${encodeURIComponent(repository)}/pullrequests`
  const patch = async (number: number, body: object, signal: AbortSignal): Promise<PullRequest> =>
    toPull((await http.call({ method: 'PATCH', path: `${root}/${number}`, query: VERSION, body, signal }, Pull))!)
  const list = async (criteria: Query, signal: AbortSignal): Promise<PullRequest[]> => {
    const search = Object.fromEntries(Object.entries(criteria).map(([name, value]) => [`searchCriteria.${name}`, value]))
    const query = { ...VERSION, ...search, $top: '100' }
    const { value } = (await http.call({ path: root, query, signal }, z.object({ value: z.array(Pull) })))!
    return value
      .filter(({ forkSource }) => forkSource === undefined || forkSource === null)
      .map(toPull)
      .toSorted((a, b) => b.number - a.number)
  }
  return {
    type: 'azure-devops',
    findPulls: ({ head, base }, signal) =>
      list(
        { sourceRefName: `${HEADS}${head}`, ...(base === undefined ? {} : { targetRefName: `${HEADS}${base}` }), status: 'all' },
        signal,
      ),
    listOpenPulls: (base, signal) => list({ targetRefName: `${HEADS}${base}`, status: 'active' }, signal),
    async createPull({ title, body: text, head, base, labels }, signal) {
      const body = {
        title,
        description: cut(text),
        sourceRefName: `${HEADS}${head}`,
        targetRefName: `${HEADS}${base}`,
        labels: labels.map((name) => ({ name })),
      }
      const created = await http.call({ method: 'POST', path: root, query: VERSION, body, expected: 409, signal }, Pull)
      return created === null ? 'duplicate' : toPull(created)
    },
    getPull: async (number, signal) => toPull((await http.call({ path: `${root}/${number}`, query: VERSION, signal }, Pull))!),
    updatePull: ({ number }, { title, body }, signal) =>
      patch(number, { title, description: body === undefined ? undefined : cut(body) }, signal),
    closePull: async ({ number }, signal) => void (await patch(number, { status: 'abandoned' }, signal)),
    async comment({ number }, content, signal) {
      const body = { comments: [{ parentCommentId: 0, content, commentType: 1 }], status: 1 }
      await http.call({ method: 'POST', path: `${root}/${number}/threads`, query: VERSION, body, signal }, z.unknown())
    },
  }
}
