// How five forges speak: routes, codes and forms of a pull request.
import type { ForgeAnswer, ForgeOptions, ForgePull, ForgeRequest, TestForge } from './forge.ts'

export type ForgeKind = 'github' | 'gitlab' | 'gitea' | 'bitbucket-server' | 'azure-devops'

export interface Dialect {
  clonePath(options: ForgeOptions): string
  authorization(token: string): string
  /** Null: no such route. */
  answer(forge: TestForge, request: ForgeRequest): Promise<ForgeAnswer | null>
}

interface Form {
  readonly root: (options: ForgeOptions) => string
  readonly view: (forge: TestForge, pull: ForgePull) => Promise<object>
  readonly list: (forge: TestForge, query: URLSearchParams) => ForgePull[]
  readonly wrap: (pulls: object[]) => unknown
  readonly create: (body: Record<string, unknown>) => { title: string; body: string; head: string; base: string; labels?: string[] }
  readonly duplicate: number
  readonly change: (body: Record<string, unknown>) => Partial<Pick<ForgePull, 'title' | 'body' | 'state'>>
  readonly commentPath: RegExp
  readonly commentOf: (body: Record<string, unknown>) => string
  readonly updateStatus?: number
}

const text = (value: unknown): string => (typeof value === 'string' ? value : '')
const optional = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined)
const branch = (ref: unknown): string => text(ref).replace(/^refs\/heads\//, '')
const newest = (pulls: readonly ForgePull[]): ForgePull[] => pulls.toReversed()
const matching = (forge: TestForge, head: string | null, base: string | null): ForgePull[] =>
  newest(forge.pulls.filter((pull) => (head === null || pull.head === head) && (base === null || pull.base === base)))
const toWebUrl = (forge: TestForge, pull: ForgePull): string =>
  `${forge.webUrl}/${forge.options.owner}/${forge.options.name}/pulls/${pull.number}`

const toFullName = ({ options }: TestForge, isFork: boolean): string => `${isFork ? 'stranger' : options.owner}/${options.name}`

async function githubView(forge: TestForge, pull: ForgePull): Promise<object> {
  return {
    number: pull.number,
    html_url: toWebUrl(forge, pull),
    state: pull.state === 'open' ? 'open' : 'closed',
    title: pull.title,
    body: pull.body,
    head: { ref: pull.head, sha: await forge.headSha(pull), repo: { full_name: toFullName(forge, pull.isFork) } },
    base: { ref: pull.base, repo: { full_name: toFullName(forge, false) } },
    mergeable: await forge.isMergeable(pull),
    merged: pull.state === 'merged',
    merged_at: pull.state === 'merged' ? '2026-01-01T00:00:00Z' : null,
    merge_commit_sha: pull.mergedSha,
  }
}

const github: Form = {
  root: ({ owner, name }) => `/api/v3/repos/${owner}/${name}/pulls`,
  view: githubView,
  list: (forge, query) => matching(forge, query.get('head')?.split(':')[1] ?? null, query.get('base')),
  wrap: (pulls) => pulls,
  create: (body) => ({ title: text(body['title']), body: text(body['body']), head: text(body['head']), base: text(body['base']) }),
  duplicate: 422,
  change: (body) =>
    ({
      title: optional(body['title']),
      body: optional(body['body']),
      ...(body['state'] === 'closed' ? { state: 'closed' as const } : {}),
    }) as never,
  commentPath: /\/issues\/(\d+)\/comments$/,
  commentOf: (body) => text(body['body']),
}

const gitea: Form = {
  ...github,
  root: ({ owner, name }) => `/api/v1/repos/${owner}/${name}/pulls`,
  list: (forge, query) => {
    const limit = Number(query.get('limit') ?? 30)
    return newest(forge.pulls).slice((Number(query.get('page') ?? 1) - 1) * limit, Number(query.get('page') ?? 1) * limit)
  },
  duplicate: 409,
  updateStatus: 201,
}

const gitlab: Form = {
  root: ({ owner, name }) => `/api/v4/projects/${encodeURIComponent(`${owner}/${name}`)}/merge_requests`,
  view: async (forge, pull) => ({
    iid: pull.number,
    web_url: toWebUrl(forge, pull),
    state: pull.state === 'open' ? 'opened' : pull.state,
    title: pull.title,
    description: pull.body,
    source_branch: pull.head,
    target_branch: pull.base,
    sha: await forge.headSha(pull),
    source_project_id: pull.isFork ? 2 : 1,
    target_project_id: 1,
    merge_status: (await forge.isMergeable(pull)) ? 'can_be_merged' : 'cannot_be_merged',
    merge_commit_sha: pull.mergedSha,
  }),
  list: (forge, query) => matching(forge, query.get('source_branch'), query.get('target_branch')),
  wrap: (pulls) => pulls,
  create: (body) => ({
    title: text(body['title']),
    body: text(body['description']),
    head: text(body['source_branch']),
    base: text(body['target_branch']),
    labels: text(body['labels'])
      .split(',')
      .filter((label) => label !== ''),
  }),
  duplicate: 409,
  change: (body) =>
    ({
      title: optional(body['title']),
      body: optional(body['description']),
      ...(body['state_event'] === 'close' ? { state: 'closed' as const } : {}),
    }) as never,
  commentPath: /\/merge_requests\/(\d+)\/notes$/,
  commentOf: (body) => text(body['body']),
}

const bitbucket: Form = {
  root: ({ owner, name }) => `/rest/api/1.0/projects/${owner}/repos/${name}/pull-requests`,
  view: async (forge, pull) => ({
    id: pull.number,
    version: pull.version,
    title: pull.title,
    description: pull.body,
    state: { open: 'OPEN', merged: 'MERGED', closed: 'DECLINED' }[pull.state],
    fromRef: { id: `refs/heads/${pull.head}`, latestCommit: await forge.headSha(pull), repository: { id: pull.isFork ? 2 : 1 } },
    toRef: { id: `refs/heads/${pull.base}`, repository: { id: 1 } },
    links: { self: [{ href: toWebUrl(forge, pull) }] },
    properties: pull.mergedSha === null ? {} : { mergeCommit: { id: pull.mergedSha } },
  }),
  list: (forge, query) =>
    query.get('direction') === 'INCOMING'
      ? matching(forge, null, branch(query.get('at')))
      : matching(forge, branch(query.get('at')), null).filter(({ isFork }) => !isFork),
  wrap: (values) => ({ values, isLastPage: true }),
  create: (body) => ({
    title: text(body['title']),
    body: text(body['description']),
    head: branch((body['fromRef'] as { id?: unknown } | undefined)?.id),
    base: branch((body['toRef'] as { id?: unknown } | undefined)?.id),
  }),
  duplicate: 409,
  change: (body) => ({ title: optional(body['title']), body: optional(body['description']) }) as never,
  commentPath: /\/pull-requests\/(\d+)\/comments$/,
  commentOf: (body) => text(body['text']),
}

const azure: Form = {
  root: ({ owner, project, name }) => `/${owner}/${project}/_apis/git/repositories/${name}/pullrequests`,
  view: async (forge, pull) => ({
    pullRequestId: pull.number,
    status: { open: 'active', merged: 'completed', closed: 'abandoned' }[pull.state],
    title: pull.title,
    description: pull.body,
    sourceRefName: `refs/heads/${pull.head}`,
    targetRefName: `refs/heads/${pull.base}`,
    mergeStatus: (await forge.isMergeable(pull)) ? 'succeeded' : 'conflicts',
    lastMergeSourceCommit: { commitId: await forge.headSha(pull) },
    ...(pull.mergedSha === null ? {} : { lastMergeCommit: { commitId: pull.mergedSha } }),
    ...(pull.isFork ? { forkSource: { name: `refs/heads/${pull.head}` } } : {}),
    url: toWebUrl(forge, pull),
    repository: { webUrl: `${forge.webUrl}/${forge.options.owner}/${forge.options.project}/_git/${forge.options.name}` },
  }),
  list: (forge, query) =>
    matching(forge, branch(query.get('searchCriteria.sourceRefName')) || null, branch(query.get('searchCriteria.targetRefName')) || null),
  wrap: (value) => ({ value, count: value.length }),
  create: (body) => ({
    title: text(body['title']),
    body: text(body['description']),
    head: branch(body['sourceRefName']),
    base: branch(body['targetRefName']),
    labels: ((body['labels'] ?? []) as { name: string }[]).map(({ name }) => name),
  }),
  duplicate: 409,
  change: (body) =>
    ({
      title: optional(body['title']),
      body: optional(body['description']),
      ...(body['status'] === 'abandoned' ? { state: 'closed' as const } : {}),
    }) as never,
  commentPath: /\/pullrequests\/(\d+)\/threads$/,
  commentOf: (body) => text((body['comments'] as { content?: unknown }[] | undefined)?.[0]?.content),
}

/** The routes that all have: list, create, read, change, comment; Bitbucket's decline and GitHub's labels besides. */
function answerWith(form: Form) {
  return async (forge: TestForge, request: ForgeRequest): Promise<ForgeAnswer | null> => {
    const { method, path, query, body } = request
    const root = form.root(forge.options)
    if (forge.options.kind === 'azure-devops' && query.get('api-version') !== '7.1') return { status: 400 }
    const commented = pullAt(forge, form.commentPath.exec(path)?.[1])
    if (method === 'POST' && commented !== undefined) {
      commented.comments.push(form.commentOf(body))
      return { status: 201, body: {} }
    }
    const labelled = pullAt(forge, /\/issues\/(\d+)\/labels$/.exec(path)?.[1])
    if (method === 'POST' && labelled !== undefined) {
      labelled.labels.push(...((body['labels'] ?? []) as string[]))
      return { status: 200, body: [] }
    }
    if (path === root && method === 'GET') {
      const isOpenOnly = /^(open|opened|OPEN|active)$/.test(query.get('state') ?? query.get('searchCriteria.status') ?? '')
      const pulls = form.list(forge, query).filter(({ state }) => !isOpenOnly || state === 'open')
      const views = await Promise.all(pulls.map((pull) => form.view(forge, pull)))
      return { status: 200, body: form.wrap(views) }
    }
    if (path === root && method === 'POST') return create(forge, form, body)
    if (!path.startsWith(`${root}/`)) return null
    return change(forge, form, request, path.slice(root.length + 1))
  }
}

const pullAt = (forge: TestForge, number: string | undefined): ForgePull | undefined =>
  number === undefined ? undefined : forge.pulls[Number(number) - 1]

async function create(forge: TestForge, form: Form, body: Record<string, unknown>): Promise<ForgeAnswer> {
  const pull = await forge.open(form.create(body))
  if (pull === 'duplicate') return { status: form.duplicate, body: {} }
  if (pull === 'invalid') return { status: forge.options.kind === 'github' ? 422 : 400, body: {} }
  return { status: 201, body: await form.view(forge, pull) }
}

async function change(forge: TestForge, form: Form, { method, query, body }: ForgeRequest, rest: string): Promise<ForgeAnswer | null> {
  const pull = pullAt(forge, /^\d+/.exec(rest)?.[0])
  if (pull === undefined) return null
  const isBitbucket = forge.options.kind === 'bitbucket-server'
  const isStale = (version: unknown) => isBitbucket && Number(version) !== pull.version
  if (/^\d+\/decline$/.test(rest) && isBitbucket && method === 'POST') {
    if (isStale(query.get('version')) || pull.state !== 'open') return { status: 409, body: {} }
    return { status: 200, body: await form.view(forge, forge.change(pull, { state: 'closed' })) }
  }
  if (!/^\d+$/.test(rest)) return null
  if (method === 'GET') return { status: 200, body: await form.view(forge, pull) }
  if (method !== 'PATCH' && method !== 'PUT') return null
  if (isStale(body['version'])) return { status: 409, body: {} }
  return { status: form.updateStatus ?? 200, body: await form.view(forge, forge.change(pull, form.change(body))) }
}

const plainPath = ({ owner, name }: ForgeOptions): string => `/${owner}/${name}.git`
const bearer = (token: string): string => `Bearer ${token}`

export const dialects: Record<ForgeKind, Dialect> = {
  github: { clonePath: plainPath, authorization: bearer, answer: answerWith(github) },
  gitlab: { clonePath: plainPath, authorization: bearer, answer: answerWith(gitlab) },
  gitea: { clonePath: plainPath, authorization: (token) => `token ${token}`, answer: answerWith(gitea) },
  'bitbucket-server': {
    clonePath: ({ owner, name }) => `/scm/${owner}/${name}.git`,
    authorization: bearer,
    answer: answerWith(bitbucket),
  },
  'azure-devops': {
    clonePath: ({ owner, project, name }) => `/${owner}/${project}/_git/${name}`,
    authorization: (token) => `Basic ${Buffer.from(`:${token}`).toString('base64')}`,
    answer: answerWith(azure),
  },
}
