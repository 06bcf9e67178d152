// Gitea, also Forgejo. Its list has no filter by branch, so the client filters.
import { z } from 'zod'
import type { Forge, PullRequest, RepositoryAddress } from './forge.ts'
import type { ForgeHttp } from './forge-http.ts'
import { isFromFork, Pull, pullsApi, repositoryPath, toPull } from './pulls-api.ts'

const PAGE = 50
const PAGES_MAX = 20
const PULLS_MAX = 100

export function giteaForge(http: ForgeHttp, address: RepositoryAddress): Forge {
  const list = async (state: 'all' | 'open', isWanted: (pull: PullRequest) => boolean, signal: AbortSignal): Promise<PullRequest[]> => {
    const wanted: PullRequest[] = []
    for (let page = 1; page <= PAGES_MAX && wanted.length < PULLS_MAX; page++) {
      const query = { state, limit: String(PAGE), page: String(page) }
      const pulls = (await http.call({ path: `${repositoryPath(address)}/pulls`, query, signal }, z.array(Pull)))!
      const own = pulls.filter((pull) => !isFromFork(pull)).map(toPull)
      wanted.push(...own.filter(isWanted))
      if (pulls.length < PAGE) break
    }
    return wanted.toSorted((a, b) => b.number - a.number).slice(0, PULLS_MAX)
  }
  return {
    type: 'gitea',
    findPulls: (at, signal) => list('all', ({ head, base }) => head === at.head && base === (at.base ?? base), signal),
    listOpenPulls: (base, signal) => list('open', (pull) => pull.base === base, signal),
    ...pullsApi(http, address, 409),
  }
}
