// A small stateful forge over a real bare repository, in five dialects with their codes. Heads are read from the refs at each request and
// merging is real. Faults per route: a request or its answer is lost, delayed, or answered with another status.
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Dialect, dialects, type ForgeKind } from './forge-dialects.ts'
import type { BareRepository } from './git-repository.ts'

export interface ForgePull {
  readonly number: number
  title: string
  body: string
  readonly head: string
  readonly base: string
  state: 'open' | 'merged' | 'closed'
  mergedSha: string | null
  /** Of the head when the pull request was closed: its branch may be gone. */
  lastHeadSha: string
  version: number
  /** Its head is a branch of a fork. */
  readonly isFork: boolean
  readonly labels: string[]
  readonly comments: string[]
}

export interface ForgeFault {
  /** Tested on `{method} {path}`. */
  readonly route: RegExp
  /** `drop-before`: not processed; `drop-after`: processed, the answer is lost; `repeat`: processed twice. */
  readonly kind: 'drop-before' | 'drop-after' | 'delay' | 'status' | 'repeat'
  readonly status?: number
  readonly headers?: Record<string, string>
  readonly delayMs?: number
  /** `delay`: the request waits for this instead of a time. */
  readonly until?: Promise<unknown>
  /** Called before the connection ends. */
  readonly onFault?: () => void
  /** How often; default: until it is removed. */
  times?: number
}

export interface ForgeOptions {
  readonly kind: ForgeKind
  readonly token: string
  readonly owner: string
  readonly project?: string
  readonly name: string
}

export interface ForgeRequest {
  readonly method: string
  readonly path: string
  readonly query: URLSearchParams
  readonly body: Record<string, unknown>
}
export interface ForgeAnswer {
  readonly status: number
  readonly body?: unknown
}

export class TestForge {
  readonly options: ForgeOptions
  readonly pulls: ForgePull[] = []
  /** `{method} {path}` of every request. */
  readonly requests: string[] = []
  readonly faults: ForgeFault[] = []
  /** Reads that were answered with 304. */
  notModified = 0
  readonly #dialect: Dialect
  repository: BareRepository | null = null
  /** Address of the server, for web links. */
  webUrl = ''
  token: string

  constructor(options: ForgeOptions) {
    this.options = options
    this.token = options.token
    this.#dialect = dialects[options.kind]
  }

  get clonePath(): string {
    return this.#dialect.clonePath(this.options)
  }

  /** For `gitServer({ api })`. */
  readonly handle = async (incoming: IncomingMessage, response: ServerResponse): Promise<void> => {
    const request = await readRequest(incoming)
    this.requests.push(`${request.method} ${request.path}`)
    const fault = this.#takeFault(request)
    if (fault?.kind === 'drop-before') return drop(incoming, fault)
    if (fault?.kind === 'delay') await (fault.until ?? sleep(fault.delayMs ?? 0))
    if (fault?.kind === 'status') return void response.writeHead(fault.status ?? 500, fault.headers).end('{}')
    let answer = await this.#answer(request, incoming)
    if (fault?.kind === 'repeat') answer = await this.#answer(request, incoming)
    if (fault?.kind === 'drop-after') return drop(incoming, fault)
    const text = answer.body === undefined ? '{}' : JSON.stringify(answer.body)
    const etag = `"${hash('sha256', text)}"`
    if (request.method === 'GET' && answer.status === 200 && incoming.headers['if-none-match'] === etag) {
      this.notModified += 1
      return void response.writeHead(304, { etag }).end()
    }
    response.writeHead(answer.status, { 'content-type': 'application/json', etag })
    response.end(text)
  }

  #takeFault({ method, path }: ForgeRequest): ForgeFault | undefined {
    const fault = this.faults.find(({ route, times }) => route.test(`${method} ${path}`) && (times ?? 1) > 0)
    if (fault?.times !== undefined) fault.times -= 1
    return fault
  }

  async #answer(request: ForgeRequest, { headers }: IncomingMessage): Promise<ForgeAnswer> {
    if (headers.authorization !== this.#dialect.authorization(this.token))
      return { status: this.options.kind === 'azure-devops' ? 203 : 401 }
    return (await this.#dialect.answer(this, request)) ?? { status: 404 }
  }

  /** Null: an open one exists. */
  async open(
    pull: Pick<ForgePull, 'title' | 'body' | 'head' | 'base'> & { labels?: string[]; isFork?: boolean },
  ): Promise<ForgePull | 'duplicate' | 'invalid'> {
    const base = await this.repository!.tip(pull.base)
    const head = pull.isFork === true ? base : await this.repository!.tip(pull.head)
    if (head === null || base === null) return 'invalid'
    const isSame = (each: ForgePull) =>
      each.state === 'open' && each.head === pull.head && each.base === pull.base && each.isFork === (pull.isFork ?? false)
    if (this.pulls.some(isSame)) return 'duplicate'
    // Gitea takes a pull request without a difference; GitHub and others refuse it.
    const mustDiffer = this.options.kind !== 'gitea' && pull.isFork !== true
    if (mustDiffer && !(await this.repository!.hasChanges(pull.base, pull.head))) return 'invalid'
    const newPull: ForgePull = {
      ...pull,
      number: this.pulls.length + 1,
      state: 'open',
      mergedSha: null,
      lastHeadSha: head,
      version: 0,
      isFork: pull.isFork ?? false,
      labels: pull.labels ?? [],
      comments: [],
    }
    this.pulls.push(newPull)
    return newPull
  }

  change(pull: ForgePull, change: Partial<Pick<ForgePull, 'title' | 'body' | 'state'>>): ForgePull {
    for (const [name, value] of Object.entries(change)) if (value !== undefined) Object.assign(pull, { [name]: value })
    pull.version += 1
    return pull
  }

  async headSha(pull: ForgePull): Promise<string> {
    if (pull.state === 'open') pull.lastHeadSha = (await this.repository!.tip(pull.head)) ?? pull.lastHeadSha
    return pull.lastHeadSha
  }

  async isMergeable(pull: ForgePull): Promise<boolean> {
    return pull.state === 'open' && (await this.repository!.isMergeable(pull.base, await this.headSha(pull)))
  }

  async merge(number: number): Promise<string> {
    const pull = this.pulls[number - 1]!
    const sha = await this.repository!.merge(pull.base, await this.headSha(pull))
    Object.assign(pull, { state: 'merged', mergedSha: sha, version: pull.version + 1 })
    return sha
  }
}

function drop({ socket }: IncomingMessage, { onFault }: ForgeFault): void {
  onFault?.()
  socket.destroy()
}

async function readRequest(incoming: IncomingMessage): Promise<ForgeRequest> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk)
  const url = new URL(incoming.url ?? '/', 'http://localhost')
  const text = Buffer.concat(chunks).toString('utf8')
  const body = (text === '' ? {} : JSON.parse(text)) as Record<string, unknown>
  return { method: incoming.method ?? 'GET', path: url.pathname, query: url.searchParams, body }
}
