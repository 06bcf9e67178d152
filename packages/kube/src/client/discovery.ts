// Finds out which kinds the API server serves and under which paths. The result is cached and read again when a kind is missing. The core
// group and the other groups are separate documents, because most calls need only one. If an aggregated group fails, only its own kinds
// are reported as failed.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Transport } from '../http/transport.ts'
import { readAggregated, readLegacy, type ServedKinds } from './discovery-document.ts'
import { decodeJson } from './json.ts'
import { hasReason, KubeError } from './kube-error.ts'
import { apiVersionOf, type GroupKind, groupKindText, groupOf, type Kind } from './object.ts'
import type { Resource } from './paths.ts'

export interface Discovery {
  /** Returns the resource of a kind; reads discovery again once if it is unknown. Throws UnknownKind, or DiscoveryFailed when its group fails. */
  resolve(kind: Kind, signal?: AbortSignal): Promise<Resource>
  /** Returns the cached resource, or undefined if a lookup is needed. */
  known(kind: Kind): Resource | undefined
  /** Returns the preferred version of a kind, for inventories that name none. */
  resolveGroupKind(kind: GroupKind, signal?: AbortSignal): Promise<Resource>
  /** Returns all served resources, preferred version first within a kind. */
  all(signal?: AbortSignal): Promise<readonly Resource[]>
  /** Returns groups whose kinds are unknown because their server did not respond. */
  failedGroups(signal?: AbortSignal): Promise<ReadonlySet<string>>
  refresh(signal?: AbortSignal): Promise<void>
}

interface DiscoveryHalf {
  kinds: ServedKinds
  byKind: Map<string, Resource>
  preferred: Map<string, Resource>
  atMs: number
}

interface Half {
  readonly path: '/api' | '/apis'
  known: DiscoveryHalf | undefined
  running: Promise<DiscoveryHalf> | undefined
}

/** Within this time a missing kind is answered from the cache, so that a loop over a missing kind does not cause a lookup each time. */
const MISS_REFRESH_MS = 250

export function createDiscovery(deps: { transport: Transport; clock: Clock }): Discovery {
  const core: Half = { path: '/api', known: undefined, running: undefined }
  const groups: Half = { path: '/apis', known: undefined, running: undefined }
  const etags = new Map<string, { etag: string; value: unknown }>()

  function refresh(half: Half): Promise<DiscoveryHalf> {
    // Concurrent callers share one lookup, so no single caller's signal aborts it.
    half.running ??= load(half).finally(() => {
      half.running = undefined
    })
    return half.running
  }

  /** Starts a new lookup, because a running one may have read an older state. */
  async function refreshAfresh(half: Half): Promise<DiscoveryHalf> {
    await half.running?.catch(() => undefined)
    return refresh(half)
  }

  async function load(half: Half): Promise<DiscoveryHalf> {
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

  async function current(half: Half, signal: AbortSignal | undefined): Promise<DiscoveryHalf> {
    return half.known ?? (await untilAborted(refresh(half), signal))
  }

  const both = (signal: AbortSignal | undefined): Promise<DiscoveryHalf[]> => Promise.all([current(core, signal), current(groups, signal)])

  async function find(
    pick: (from: DiscoveryHalf) => Resource | undefined,
    group: string,
    name: string,
    signal?: AbortSignal,
  ): Promise<Resource> {
    const half = group === '' ? core : groups
    let now = await current(half, signal)
    const hit = pick(now)
    if (hit) return hit
    if (deps.clock.monotonicMs() - now.atMs >= MISS_REFRESH_MS) now = await untilAborted(refresh(half), signal)
    const refreshedHit = pick(now)
    if (refreshedHit) return refreshedHit
    if (now.kinds.failedGroups.has(group))
      throw new KubeError(`${name}: discovery of group ${group} failed, so it is unknown whether the kind is served`, {
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

function index(resources: readonly Resource[]): Pick<DiscoveryHalf, 'byKind' | 'preferred'> {
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

/** Servers before 1.27 have only the old documents: one more request per group and version. */
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
