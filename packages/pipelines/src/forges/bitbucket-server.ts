// Bitbucket Server and Data Center. Writes carry the version that was read; a stale one answers 409.
import { z } from 'zod'
import type { Forge, PullRequest, RepositoryAddress } from './forge.ts'
import type { ForgeHttp } from './forge-http.ts'

const Repository = z.object({ id: z.int() }).nullish()
const Ref = z.object({ id: z.string(), latestCommit: z.string().nullish(), repository: Repository })
const Pull = z.object({
  id: z.int(),
  version: z.int(),
  title: z.string(),
  description: z.string().nullish(),
  state: z.enum(['OPEN', 'MERGED', 'DECLINED']),
  fromRef: Ref,
  toRef: Ref,
  links: z.object({ self: z.array(z.object({ href: z.string() })).min(1) }),
  properties: z.object({ mergeCommit: z.object({ id: z.string() }).nullish() }).nullish(),
})
const Page = z.object({ values: z.array(Pull) })

const STATES = { OPEN: 'open', MERGED: 'merged', DECLINED: 'closed' } as const
const HEADS = 'refs/heads/'
const branchOf = (id: string): string => (id.startsWith(HEADS) ? id.slice(HEADS.length) : id)

/** Of a fork otherwise, where another owner writes the text. */
const isOwn = ({ fromRef, toRef }: z.output<typeof Pull>): boolean => fromRef.repository?.id === toRef.repository?.id

const toPull = (pull: z.output<typeof Pull>): PullRequest => ({
  number: pull.id,
  url: pull.links.self[0]!.href,
  state: STATES[pull.state],
  title: pull.title,
  body: pull.description ?? '',
  head: branchOf(pull.fromRef.id),
  base: branchOf(pull.toRef.id),
  headSha: pull.fromRef.latestCommit ?? null,
  isMergeable: null,
  mergedSha: pull.properties?.mergeCommit?.id ?? null,
  version: pull.version,
})

export function bitbucketServerForge(http: ForgeHttp, { owner, repository }: RepositoryAddress): Forge {
  const root = `/projects/${encodeURIComponent(owner)}/repos/${encodeURIComponent(repository)}/pull-requests`
  const getPull = async (number: number, signal: AbortSignal): Promise<PullRequest> =>
    toPull((await http.call({ path: `${root}/${number}`, signal }, Pull))!)
  const decline = (pull: PullRequest, expected: number, signal: AbortSignal) => {
    const query = { version: String(pull.version ?? 0) }
    return http.call({ method: 'POST', path: `${root}/${pull.number}/decline`, query, expected, signal }, Pull)
  }
  return {
    type: 'bitbucket-server',
    async findPulls({ head, base }, signal) {
      const query = { direction: 'OUTGOING', at: `${HEADS}${head}`, state: 'ALL', order: 'NEWEST', limit: '100' }
      const { values } = (await http.call({ path: root, query, signal }, Page))!
      return values
        .filter(isOwn)
        .map(toPull)
        .filter((pull) => pull.head === head && pull.base === (base ?? pull.base))
    },
    async listOpenPulls(base, signal) {
      const query = { direction: 'INCOMING', at: `${HEADS}${base}`, state: 'OPEN', order: 'NEWEST', limit: '100' }
      return (await http.call({ path: root, query, signal }, Page))!.values.filter(isOwn).map(toPull)
    },
    async createPull({ title, body: description, head, base }, signal) {
      const body = { title, description, fromRef: { id: `${HEADS}${head}` }, toRef: { id: `${HEADS}${base}` } }
      const created = await http.call({ method: 'POST', path: root, body, expected: 409, signal }, Pull)
      return created === null ? 'duplicate' : toPull(created)
    },
    getPull,
    async updatePull(pull, { title, body: description }, signal) {
      // The description is replaced with each write, so the one that was read goes back.
      const body = { version: pull.version ?? 0, title: title ?? pull.title, description: description ?? pull.body }
      return toPull((await http.call({ method: 'PUT', path: `${root}/${pull.number}`, body, signal }, Pull))!)
    },
    async closePull(pull, signal) {
      if ((await decline(pull, 409, signal)) !== null) return
      const fresh = await getPull(pull.number, signal)
      if (fresh.state === 'open') await decline(fresh, 0, signal)
    },
    comment: async ({ number }, text, signal) =>
      void (await http.call({ method: 'POST', path: `${root}/${number}/comments`, body: { text }, signal }, z.unknown())),
  }
}
