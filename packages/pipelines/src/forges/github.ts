// GitHub, also GitHub Enterprise Server.
import { z } from 'zod'
import type { Forge, PullRequest, RepositoryAddress } from './forge.ts'
import type { ForgeHttp, Query } from './forge-http.ts'
import { isFromFork, Pull, pullsApi, repositoryPath, toPull } from './pulls-api.ts'

export function githubForge(http: ForgeHttp, address: RepositoryAddress): Forge {
  const list = async (query: Query, signal: AbortSignal): Promise<PullRequest[]> => {
    const page = { ...query, sort: 'created', direction: 'desc', per_page: '100' }
    return (await http.call({ path: `${repositoryPath(address)}/pulls`, query: page, signal }, z.array(Pull)))!
      .filter((pull) => !isFromFork(pull))
      .map(toPull)
  }
  return {
    type: 'github',
    findPulls: ({ head, base }, signal) =>
      list({ head: `${address.owner}:${head}`, ...(base === undefined ? {} : { base }), state: 'all' }, signal),
    listOpenPulls: (base, signal) => list({ base, state: 'open' }, signal),
    ...pullsApi(http, address, 422),
  }
}
