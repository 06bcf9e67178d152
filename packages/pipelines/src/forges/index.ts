// The client for a repository's forge.
import type { ForgeType } from '@brokkr/contract/pipelines/strategy.ts'
import { azureDevopsForge } from './azure-devops.ts'
import { bitbucketServerForge } from './bitbucket-server.ts'
import type { Forge, RepositoryAddress } from './forge.ts'
import { ForgeHttp, type ForgeHttpDeps } from './forge-http.ts'
import { giteaForge } from './gitea.ts'
import { githubForge } from './github.ts'
import { gitlabForge } from './gitlab.ts'

const FORGES: Record<ForgeType, (http: ForgeHttp, address: RepositoryAddress) => Forge> = {
  github: githubForge,
  gitlab: gitlabForge,
  gitea: giteaForge,
  'bitbucket-server': bitbucketServerForge,
  'azure-devops': azureDevopsForge,
}

export function openForge(deps: Omit<ForgeHttpDeps, 'apiUrl' | 'headers'>, address: RepositoryAddress, token: string): Forge {
  const http = new ForgeHttp({ ...deps, apiUrl: address.apiUrl, headers: { authorization: authorizationOf(address.forge, token) } })
  return FORGES[address.forge](http, address)
}

function authorizationOf(forge: ForgeType, token: string): string {
  if (forge === 'gitea') return `token ${token}`
  return forge === 'azure-devops' ? `Basic ${Buffer.from(`:${token}`).toString('base64')}` : `Bearer ${token}`
}
