// Which kinds the API server serves and under which paths. Asked once, kept, asked again when a kind is missing; the core group and all
// others apart, because most calls need one of the two. An aggregated group that fails costs only itself: its kinds answer "failed", all
// others work on.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { hasReason, KubeError } from './api-error.ts'
import { readAggregated, readLegacy, type ServedKinds } from './discovery-document.ts'
import { decodeJson } from './json.ts'
import { apiVersionOf, type GroupKind, groupKindText, groupOf, type Kind } from './object.ts'
import type { Resource } from './paths.ts'
import type { Transport } from './transport.ts'

export interface Discovery {
  /** The resource of a kind; looked up anew once when it is not known. Throws UnknownKind, or DiscoveryFailed when its group is down. */
  resolve(kind: Kind, signal?: AbortSignal): Promise<Resource>
  /** The same where it is known already; undefined: it has to be looked up. */
  known(kind: Kind): Resource | undefined
  /** The preferred version of a kind, for inventories that name none. */
  resolveGroupKind(kind: GroupKind, signal?: AbortSignal): Promise<Resource>
  /** Everything served, most preferred version first within a kind. */
  all(signal?: AbortSignal): Promise<readonly Resource[]>
  /** Groups whose kinds are unknown because their server did not answer. */
  failedGroups(signal?: AbortSignal): Promise<ReadonlySet<string>>
  refresh(signal?: AbortSignal): Promise<void>
}

interface Known {
  kinds: ServedKinds
  byKind: Map<string, Resource>
  preferred: Map<string, Resource>
  atMs: number
}

interface Half {
  readonly path: '/api' | '/apis'
  known: Known | undefined
  running: Promise<Known> | undefined
}

/** Misses within this time are answered from what is known: a loop over a missing kind must not turn into a load of lookups. */
const MISS_REFRESH_MS = 250

export function createDiscovery(deps: { transport: Transport; clock: Clock }): Discovery {
  const core: Half = { path: '/api', known: undefined, running: undefined }
  const groups: Half = { path: '/apis', known: undefined, running: undefined }
  const etags = new Map<string, { etag: string; value: unknown }>()

  function refresh(half: Half): Promise<Known> {
    // One lookup for all who ask at once; it is nobody's in particular, so no single caller's signal ends it.
    half.running ??= load(half).finally(() => {
      half.running = undefined
    })
    return half.running
  }

  /** What a lookup that is under way saw may be older than the question. */
  async function refreshAfresh(half: Half): Promise<Known> {
    await half.running?.catch(() => undefined)
    return refresh(half)
  }

  async function load(half: Half): Promise<Known> {
    const kinds = await loadKinds((path, accept) => fetchDocument(path, accept), half.path)
    half.known = { kinds, ...index(kinds.resources), atMs: deps.clock.monotonicMs() }
    return half.known
  }

  async function fetchDocument(path: string, accept: string): Promise<unknown> {
    const before = etags.get(path)
    try {
      const answer = await deps.transport.send({
        method: 'GET',
        path,
        accept,
        ...(before ? { headers: { 'if-none-match': before.etag } } : {}),
      })
      const value = decodeJson(answer.text)
      const etag = answer.headers['etag']
      if (typeof etag === 'string') etags.set(path, { etag, value })
      return value
    } catch (error) {
      if (before && error instanceof KubeError && error.status === 304) return before.value
      throw error
    }
  }

  async function current(half: Half, signal: AbortSignal | undefined): Promise<Known> {
    return half.known ?? (await untilAborted(refresh(half), signal))
  }

  const both = (signal: AbortSignal | undefined): Promise<Known[]> => Promise.all([current(core, signal), current(groups, signal)])

  async function find(pick: (from: Known) => Resource | undefined, group: string, name: string, signal?: AbortSignal): Promise<Resource> {
    const half = group === '' ? core : groups
    let now = await current(half, signal)
    const hit = pick(now)
    if (hit) return hit
    if (deps.clock.monotonicMs() - now.atMs >= MISS_REFRESH_MS) now = await untilAborted(refresh(half), signal)
    const found = pick(now)
    if (found) return found
    if (now.kinds.failedGroups.has(group))
      throw new KubeError(`${name}: discovery of group ${group} failed, so nobody knows whether it is served`, {
        reason: 'DiscoveryFailed',
      })
    throw new KubeError(`${name}: the API server does not serve this kind. Is its CustomResourceDefinition installed?`, {
      reason: 'UnknownKind',
      status: 404,
    })
  }

  return {
    known: (kind) => (kind.apiVersion.includes('/') ? groups : core).known?.byKind.get(`${kind.apiVersion}|${kind.kind}`),
    resolve: (kind, signal) =>
      find(
        (from) => from.byKind.get(`${kind.apiVersion}|${kind.kind}`),
        groupOf(kind.apiVersion),
        `${kind.kind} ${kind.apiVersion}`,
        signal,
      ),
    resolveGroupKind: (kind, signal) => find((from) => from.preferred.get(groupKindText(kind)), kind.group, groupKindText(kind), signal),
    all: async (signal) => (await both(signal)).flatMap(({ kinds }) => kinds.resources),
    failedGroups: async (signal) => new Set((await both(signal)).flatMap(({ kinds }) => [...kinds.failedGroups])),
    refresh: async (signal) => void (await untilAborted(Promise.all([refreshAfresh(core), refreshAfresh(groups)]), signal)),
  }
}

function index(resources: readonly Resource[]): Pick<Known, 'byKind' | 'preferred'> {
  const byKind = new Map<string, Resource>()
  const preferred = new Map<string, Resource>()
  for (const resource of resources) {
    const version = `${apiVersionOf(resource.group, resource.version)}|${resource.kind}`
    if (!byKind.has(version)) byKind.set(version, resource)
    const kind = groupKindText(resource)
    if (!preferred.has(kind)) preferred.set(kind, resource)
  }
  return { byKind, preferred }
}

type Fetch = (path: string, accept: string) => Promise<unknown>

const AGGREGATED =
  'application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json'

async function loadKinds(fetch: Fetch, path: Half['path']): Promise<ServedKinds> {
  const document = await fetch(path, AGGREGATED)
  return readAggregated(document) ?? (await loadLegacy(fetch, document))
}

/** Servers before 1.27 answer with the old documents: one more request per group and version. */
async function loadLegacy(fetch: Fetch, document: unknown): Promise<ServedKinds> {
  return readLegacy(document, async (path) => {
    try {
      return await fetch(path, 'application/json')
    } catch (error) {
      if (hasReason(error, 'NotFound', 'ServiceUnavailable', 'InternalError', 'Timeout', 'TimedOut', 'Forbidden', 'BadAnswer'))
        return undefined
      throw error
    }
  })
}

async function untilAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (!signal) return work
  signal.throwIfAborted()
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = (): void => reject(signal.reason as Error)
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
