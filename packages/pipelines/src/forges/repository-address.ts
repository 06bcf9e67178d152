// Where a repository is at its forge: read from the clone URL. Pure.
import type { ForgeType } from '@brokkr/contract/pipelines/strategy.ts'
import { redactText } from '@brokkr/runtime/logging/redact-text.ts'
import { ForgeError, type RepositoryAddress } from './forge.ts'

export interface RepositoryUrl {
  readonly type: ForgeType
  readonly url: string
  /** Used unchanged where given. */
  readonly apiUrl?: string | undefined
  /** http is for tests and trials. */
  readonly allowInsecure: boolean
  /** Empty: any host. `*.example.com` means all below it. */
  readonly allowedHosts: readonly string[]
}

/** Throws ForgeError with reason InvalidRepositoryURL. */
export function toRepositoryAddress(input: RepositoryUrl): RepositoryAddress {
  const url = checkRepositoryUrl(input)
  const parts = pathParts(url, input)
  const place = placeOf(input.type, parts)
  if (place === null || place.owner === '' || place.repository === '') throw invalid(input.url, 'it does not name a repository')
  const ownApiUrl = apiBaseOf(input.type, url, place)
  const apiUrl = input.apiUrl === undefined ? ownApiUrl : checkApiUrl(input.apiUrl, [url.host, new URL(ownApiUrl).host], input)
  return { forge: input.type, host: url.host, ...place, apiUrl: apiUrl.replace(/\/+$/, '') }
}

function checkRepositoryUrl({ url: text, allowInsecure, allowedHosts }: RepositoryUrl): URL {
  const url = URL.parse(text)
  if (url === null) throw invalid(text, 'it is not a URL')
  if (url.protocol !== 'https:' && !(allowInsecure && url.protocol === 'http:')) throw invalid(text, 'only https is allowed')
  if (url.username !== '' || url.password !== '') throw invalid(text, 'it holds credentials; they belong into the Secret')
  if (url.search !== '' || url.hash !== '') throw invalid(text, 'it has a query or a fragment')
  if (allowedHosts.length > 0 && !allowedHosts.some((host) => isHost(url.hostname, host))) throw invalid(text, 'its host is not allowed')
  return url
}

/** The token goes there: the rules for the repository hold for it too. `ownHosts` need no permission of their own. */
function checkApiUrl(text: string, ownHosts: readonly string[], { allowInsecure, allowedHosts }: RepositoryUrl): string {
  const url = URL.parse(text)
  const refuse = (why: string) => invalid(text, why, 'API')
  if (url === null) throw refuse('it is not a URL')
  if (url.protocol !== 'https:' && !(allowInsecure && url.protocol === 'http:')) throw refuse('only https is allowed')
  if (url.username !== '' || url.password !== '') throw refuse('it holds credentials; they belong into the Secret')
  const isAllowed = allowedHosts.length === 0 || ownHosts.includes(url.host) || allowedHosts.some((host) => isHost(url.hostname, host))
  if (!isAllowed) throw refuse('its host is not allowed')
  return text
}

const isHost = (host: string, pattern: string): boolean =>
  pattern.startsWith('*.') ? host.endsWith(pattern.slice(1)) : host === pattern.toLowerCase()

function pathParts(url: URL, { url: text }: RepositoryUrl): string[] {
  try {
    const parts = url.pathname
      .split('/')
      .filter((part) => part !== '')
      .map(decodeURIComponent)
    if (!parts.some((part) => part === '.' || part === '..')) return parts
  } catch {
    // A malformed escape.
  }
  throw invalid(text, 'its path is not valid')
}

type Place = Pick<RepositoryAddress, 'owner' | 'repository' | 'project'>

function placeOf(type: ForgeType, parts: readonly string[]): Place | null {
  const repository = (parts.at(-1) ?? '').replace(/\.git$/, '')
  if (type === 'azure-devops') {
    const [org, project, marker] = parts
    return parts.length === 4 && marker === '_git' ? { owner: org!, project: project!, repository } : null
  }
  if (type === 'bitbucket-server') {
    const scm = parts.lastIndexOf('scm')
    return scm >= 0 && parts.length === scm + 3 ? { owner: parts[scm + 1]!, project: null, repository } : null
  }
  if (type === 'gitlab') return parts.length >= 2 ? { owner: parts.slice(0, -1).join('/'), project: null, repository } : null
  return parts.length === 2 ? { owner: parts[0]!, project: null, repository } : null
}

function apiBaseOf(type: ForgeType, { protocol, host }: URL, { owner, project }: Place): string {
  const own = `${protocol}//${host}`
  const bases: Record<ForgeType, string> = {
    github: host === 'github.com' ? 'https://api.github.com' : `${own}/api/v3`,
    gitlab: `${own}/api/v4`,
    gitea: `${own}/api/v1`,
    'bitbucket-server': `${own}/rest/api/1.0`,
    'azure-devops': `${own}/${encodeURIComponent(owner)}/${encodeURIComponent(project ?? '')}/_apis/git`,
  }
  return bases[type]
}

const invalid = (url: string, why: string, what: 'repository' | 'API' = 'repository'): ForgeError =>
  new ForgeError({
    outcome: 'failed',
    class: 'configuration',
    reason: 'InvalidRepositoryURL',
    message: redactText(`the ${what} URL "${url}" cannot be used: ${why}`),
  })
