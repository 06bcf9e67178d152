// Opens a client to one API server: composes configuration, credentials, connections, limits and discovery.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { createCredentials } from '../auth/credentials.ts'
import type { KubeConfig } from '../auth/kube-config.ts'
import { createRequestLimiter, type RequestLimiter, type RequestLimits } from '../http/request-limiter.ts'
import { createTransport, type StreamedResponse, type Transport, type TransportRequest, toRequestError } from '../http/transport.ts'
import { listPages } from '../watch/list.ts'
import { streamList } from '../watch/list-stream.ts'
import { watchEvents } from '../watch/watch.ts'
import { builtInResource, type CollectionResource } from './built-in-kinds.ts'
import { applyQueries, deleteBody, readObject, readWritten, writeQuery } from './call-format.ts'
import { createDiscovery, type Discovery } from './discovery.ts'
import { encodeJson } from './json.ts'
import type { CallOptions, Kube, KubeList, RawOptions } from './kube.ts'
import { hasReason, isObjectNotFound } from './kube-error.ts'
import type { Kind } from './object.ts'
import { collectionPath, objectPath, withQuery } from './paths.ts'
import type { KubeResponse } from './response-error.ts'

export interface KubeOptions {
  clock?: Clock
  /** Environment of credential plugins, which need at least PATH; default none. */
  env?: Readonly<Record<string, string | undefined>>
  userAgent?: string
  /** Aborts every call of this client. */
  signal?: AbortSignal
  limits?: Partial<RequestLimits> & { timeoutMs?: number; responseBytesMax?: number; watchLineBytesMax?: number }
}

/** Sends nothing before the first call. `close()` aborts all calls in flight. */
export function openKube(config: KubeConfig, options: KubeOptions = {}): Kube {
  const clock = options.clock ?? systemClock
  const limits = {
    inFlight: 32,
    qps: 0,
    burst: 100,
    timeoutMs: 30_000,
    responseBytesMax: 64 * MIB,
    watchLineBytesMax: 8 * MIB,
    ...options.limits,
  }
  const ending = new AbortController()
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal
  const limiter = createRequestLimiter({ clock }, limits)
  const credentials = createCredentials({ clock, env: options.env ?? {} }, config)
  const transport = createTransport(
    { config, credentials, limiter, clock, signal },
    { ...limits, userAgent: options.userAgent ?? 'brokkr' },
  )
  const close = async (): Promise<void> => {
    ending.abort(new Error(`the client of ${config.server} was closed`))
    await transport.close()
  }
  return kubeOn(
    {
      clock,
      config,
      transport,
      limiter,
      discovery: createDiscovery({ transport, clock }),
      watchLineBytesMax: limits.watchLineBytesMax,
      responseBytesMax: limits.responseBytesMax,
      close,
    },
    {},
  )
}

const MIB = 1024 * 1024

interface Parts {
  clock: Clock
  config: KubeConfig
  transport: Transport
  limiter: RequestLimiter
  discovery: Discovery
  watchLineBytesMax: number
  responseBytesMax: number
  close(): Promise<void>
}

const PATCH_TYPES = {
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  json: 'application/json-patch+json',
} as const
const APPLY_TYPE = 'application/apply-patch+yaml'
const METADATA_ONLY = 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json'

function kubeOn(parts: Parts, defaults: CallOptions): Kube {
  const { transport, discovery, clock } = parts
  const applyQuery = applyQueries()
  const resolve = (kind: Kind, options: CallOptions) => discovery.resolve(kind, options.signal ?? defaults.signal)
  const send = (request: Omit<TransportRequest, keyof CallOptions>, options: CallOptions): Promise<KubeResponse> =>
    transport.send({ ...request, ...mergeCallOptions(defaults, options) })
  /** A 404 of a whole collection can mean that its kind was removed after discovery; then the error of the new lookup is thrown. */
  const throwNotFound = async (kind: Kind, options: CallOptions, error: unknown): Promise<never> => {
    if (hasReason(error, 'NotFound')) {
      await discovery.refresh(options.signal ?? defaults.signal)
      await resolve(kind, options)
    }
    throw error
  }

  const opening =
    (options: CallOptions) =>
    (request: Omit<TransportRequest, keyof CallOptions>): Promise<StreamedResponse> =>
      transport.open({ ...request, ...mergeCallOptions(defaults, options), isFinite: true })

  /** Lists built-in kinds without a discovery lookup; if the server does not serve one, discovery explains why. */
  async function underKnownPath<T>(kind: Kind, options: CallOptions, work: (resource: CollectionResource) => Promise<T>): Promise<T> {
    const signals = [options.signal ?? defaults.signal]
    try {
      const builtIn = builtInResource(kind)
      if (!builtIn) return await work(await resolve(kind, options)).catch((error) => throwNotFound(kind, options, error))
      return await work(builtIn).catch(async (error: unknown) => {
        if (!hasReason(error, 'NotFound')) throw error
        return work(await resolve(kind, options))
      })
    } catch (error) {
      throw toRequestError(`list ${kind.kind}`, error, signals)
    }
  }

  const kube: Kube = {
    server: parts.config.server,
    namespace: parts.config.namespace,
    discovery,
    async get(ref, options = {}) {
      const path = objectPath(await resolve(ref, options), ref, options.subresource)
      return readObject(await send({ method: 'GET', path, ...(options.metadataOnly ? { accept: METADATA_ONLY } : {}) }, options), ref)
    },
    async find(ref, options = {}) {
      try {
        return await kube.get(ref, options)
      } catch (error) {
        if (isObjectNotFound(error)) return undefined
        throw error
      }
    },
    async list(kind, options = {}) {
      const all: KubeList = { resourceVersion: '', items: [] }
      for await (const page of kube.pages(kind, options)) {
        all.resourceVersion = page.resourceVersion
        for (const item of page.items) all.items.push(item)
      }
      return all
    },
    pages: (kind, options = {}) =>
      listPages(
        {
          send: ({ signal, ...request }) => send(request, { ...options, signal }).catch((error) => throwNotFound(kind, options, error)),
          resolve: () => resolve(kind, options),
        },
        kind,
        { ...options, signal: options.signal ?? defaults.signal },
      ),
    scan: (kind, options, taker) =>
      underKnownPath(kind, options, (resource) =>
        streamList({ open: opening(options), resource, bytesMax: parts.responseBytesMax }, kind, options, taker),
      ),
    async create(object, options = {}) {
      const path = collectionPath(await resolve(object, options), object.metadata.namespace)
      return readObject(
        await send({ method: 'POST', path: withQuery(path, writeQuery(options)), body: encodeJson(object) }, options),
        object,
      )
    },
    async replace(object, options = {}) {
      const path = objectPath(await resolve(object, options), object.metadata, options.subresource)
      return readObject(
        await send({ method: 'PUT', path: withQuery(path, writeQuery(options)), body: encodeJson(object) }, options),
        object,
      )
    },
    async patch(ref, patch, options = {}) {
      const path = withQuery(objectPath(await resolve(ref, options), ref, options.subresource), writeQuery(options))
      return readObject(
        await send({ method: 'PATCH', path, body: encodeJson(patch.body), contentType: PATCH_TYPES[patch.type] }, options),
        ref,
      )
    },
    async apply(object, options) {
      // The resource is usually cached, and an await would cost every call of a large set a turn of the event loop.
      const resource = discovery.known(object) ?? (await resolve(object, options))
      const path = objectPath(resource, object.metadata, options.subresource) + applyQuery(options)
      const startedMs = clock.monotonicMs()
      const answer = await send({ method: 'PATCH', path, body: encodeJson(object), contentType: APPLY_TYPE }, options)
      return readWritten(answer, object, { tookMs: clock.monotonicMs() - startedMs, isTrial: options.dryRun === true })
    },
    async delete(ref, options = {}) {
      const path = withQuery(objectPath(await resolve(ref, options), ref), { dryRun: options.dryRun ? 'All' : undefined })
      const remainingObject = readObject(await send({ method: 'DELETE', path, body: encodeJson(deleteBody(options)) }, options), ref)
      return remainingObject.kind === 'Status' ? undefined : remainingObject
    },
    watch: (kind, options = {}) =>
      watchEvents(
        {
          open: (request) => transport.open({ ...request, ...mergeCallOptions(defaults, options) }),
          resolve: async () => builtInResource(kind) ?? resolve(kind, options),
          lineBytesMax: parts.watchLineBytesMax,
        },
        kind,
        options,
      ),
    request: (method, path, options = {}) => send({ method, ...toRawRequest(path, options) }, options),
    open: (path, options = {}) =>
      transport.open({ method: 'GET', accept: '*/*', path: withQuery(path, options.query ?? {}), ...mergeCallOptions(defaults, options) }),
    with: (more) => kubeOn(parts, { ...defaults, ...more }),
    setLimits: (limits) => parts.limiter.set(limits),
    close: () => parts.close(),
  }
  return kube
}

const mergeCallOptions = (defaults: CallOptions, options: CallOptions): CallOptions => ({
  signal: options.signal ?? defaults.signal,
  timeoutMs: options.timeoutMs ?? defaults.timeoutMs,
  as: options.as ?? defaults.as,
  urgent: options.urgent,
  guard: options.guard ?? defaults.guard,
})

function toRawRequest(path: string, options: RawOptions): Pick<TransportRequest, 'path' | 'body' | 'accept' | 'contentType'> {
  const body = options.body === undefined || typeof options.body === 'string' ? options.body : encodeJson(options.body)
  return { path: withQuery(path, options.query ?? {}), accept: options.accept, contentType: options.contentType, body }
}
