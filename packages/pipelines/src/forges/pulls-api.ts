// The part of the API that GitHub and Gitea have in common: one pull request, its labels and its comments.
import { z } from 'zod'
import { type Forge, ForgeError, type PullRequest, type RepositoryAddress } from './forge.ts'
import type { ForgeHttp } from './forge-http.ts'

const Repository = z.object({ full_name: z.string() }).nullish()

export const Pull = z.object({
  number: z.int(),
  html_url: z.string(),
  state: z.enum(['open', 'closed']),
  title: z.string(),
  body: z.string().nullish(),
  /** `repo` is null where a fork was deleted. */
  head: z.object({ ref: z.string(), sha: z.string().nullish(), repo: Repository }),
  base: z.object({ ref: z.string(), repo: Repository }),
  mergeable: z.boolean().nullish(),
  /** Gitea. */
  merged: z.boolean().nullish(),
  /** Both; GitHub's lists have it and not `merged`. */
  merged_at: z.string().nullish(),
  merge_commit_sha: z.string().nullish(),
})

/** Another repository may have a branch of the same name, and its owner writes the text. */
export const isFromFork = ({ head, base }: z.output<typeof Pull>): boolean => head.repo?.full_name !== base.repo?.full_name

export const toPull = (pull: z.output<typeof Pull>): PullRequest => {
  const isMerged = pull.merged === true || typeof pull.merged_at === 'string'
  return {
    number: pull.number,
    url: pull.html_url,
    state: isMerged ? 'merged' : pull.state,
    title: pull.title,
    body: pull.body ?? '',
    head: pull.head.ref,
    base: pull.base.ref,
    headSha: pull.head.sha ?? null,
    isMergeable: pull.mergeable ?? null,
    mergedSha: isMerged ? (pull.merge_commit_sha ?? null) : null,
    version: null,
  }
}

export const repositoryPath = ({ owner, repository }: RepositoryAddress): string =>
  `/repos/${encodeURIComponent(owner)}/${encodeURIComponent(repository)}`

/** `duplicateStatus`: what the forge answers when an open pull request of this head and base exists. */
export function pullsApi(
  http: ForgeHttp,
  address: RepositoryAddress,
  duplicateStatus: number,
): Pick<Forge, 'createPull' | 'getPull' | 'updatePull' | 'closePull' | 'comment'> {
  const root = repositoryPath(address)
  const patch = async (number: number, body: object, signal: AbortSignal): Promise<PullRequest> =>
    toPull((await http.call({ method: 'PATCH', path: `${root}/pulls/${number}`, body, signal }, Pull))!)
  return {
    async createPull({ labels, ...body }, signal) {
      const created = await http.call({ method: 'POST', path: `${root}/pulls`, body, expected: duplicateStatus, signal }, Pull)
      if (created === null) return 'duplicate'
      if (labels.length > 0) await addLabels(http, `${root}/issues/${created.number}/labels`, labels, signal)
      return toPull(created)
    },
    getPull: async (number, signal) => toPull((await http.call({ path: `${root}/pulls/${number}`, signal }, Pull))!),
    updatePull: ({ number }, change, signal) => patch(number, change, signal),
    closePull: async ({ number }, signal) => void (await patch(number, { state: 'closed' }, signal)),
    comment: async ({ number }, body, signal) =>
      void (await http.call({ method: 'POST', path: `${root}/issues/${number}/comments`, body: { body }, signal }, z.unknown())),
  }
}

/** Labels are a help to readers: a forge that refuses one does not stop the promotion. */
async function addLabels(http: ForgeHttp, path: string, labels: readonly string[], signal: AbortSignal): Promise<void> {
  await http.call({ method: 'POST', path, body: { labels }, signal }, z.unknown()).catch((error: unknown) => {
    if (!(error instanceof ForgeError)) throw error
  })
}
