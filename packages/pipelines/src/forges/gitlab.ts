// GitLab. A bearer token may be personal, of a project, of a group or OAuth.
import { z } from 'zod'
import type { Forge, PullRequest, RepositoryAddress } from './forge.ts'
import type { ForgeHttp, Query } from './forge-http.ts'

const MergeRequest = z.object({
  iid: z.int(),
  web_url: z.string(),
  state: z.enum(['opened', 'closed', 'locked', 'merged']),
  title: z.string(),
  description: z.string().nullish(),
  source_branch: z.string(),
  target_branch: z.string(),
  sha: z.string().nullish(),
  merge_status: z.string().nullish(),
  merge_commit_sha: z.string().nullish(),
  squash_commit_sha: z.string().nullish(),
  source_project_id: z.int().nullish(),
  target_project_id: z.int().nullish(),
})

const STATES = { opened: 'open', locked: 'open', closed: 'closed', merged: 'merged' } as const

const toPull = (request: z.output<typeof MergeRequest>): PullRequest => ({
  number: request.iid,
  url: request.web_url,
  state: STATES[request.state],
  title: request.title,
  body: request.description ?? '',
  head: request.source_branch,
  base: request.target_branch,
  headSha: request.sha ?? null,
  isMergeable: request.merge_status === 'can_be_merged' ? true : request.merge_status === 'cannot_be_merged' ? false : null,
  // A fast-forward merge has neither.
  mergedSha: request.state === 'merged' ? (request.merge_commit_sha ?? request.squash_commit_sha ?? null) : null,
  version: null,
})

export function gitlabForge(http: ForgeHttp, { owner, repository }: RepositoryAddress): Forge {
  const root = `/projects/${encodeURIComponent(`${owner}/${repository}`)}/merge_requests`
  const put = async (number: number, body: object, signal: AbortSignal): Promise<PullRequest> =>
    toPull((await http.call({ method: 'PUT', path: `${root}/${number}`, body, signal }, MergeRequest))!)
  const list = async (criteria: Query, signal: AbortSignal): Promise<PullRequest[]> => {
    const query = { ...criteria, order_by: 'created_at', sort: 'desc', per_page: '100' }
    const requests = (await http.call({ path: root, query, signal }, z.array(MergeRequest)))!
    // Of a fork otherwise, where another owner writes the text.
    return requests.filter((request) => request.source_project_id === request.target_project_id).map(toPull)
  }
  return {
    type: 'gitlab',
    findPulls: ({ head, base }, signal) =>
      list({ source_branch: head, ...(base === undefined ? {} : { target_branch: base }), state: 'all' }, signal),
    listOpenPulls: (base, signal) => list({ target_branch: base, state: 'opened' }, signal),
    async createPull({ title, body: description, head, base, labels }, signal) {
      const body = {
        title,
        description,
        source_branch: head,
        target_branch: base,
        ...(labels.length === 0 ? {} : { labels: labels.join(',') }),
      }
      const created = await http.call({ method: 'POST', path: root, body, expected: 409, signal }, MergeRequest)
      return created === null ? 'duplicate' : toPull(created)
    },
    getPull: async (number, signal) => toPull((await http.call({ path: `${root}/${number}`, signal }, MergeRequest))!),
    updatePull: ({ number }, { title, body: description }, signal) => put(number, { title, description }, signal),
    closePull: async ({ number }, signal) => void (await put(number, { state_event: 'close' }, signal)),
    comment: async ({ number }, body, signal) =>
      void (await http.call({ method: 'POST', path: `${root}/${number}/notes`, body: { body }, signal }, z.unknown())),
  }
}
