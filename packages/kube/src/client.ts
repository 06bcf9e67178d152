// Opens a client to one API server: configuration, credentials, connections, limits and discovery put together.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { systemClock } from '@brokkr/runtime/clock.ts'
import type { Answer } from './answer-error.ts'
import { hasReason } from './api-error.ts'
import { builtInResource, type CollectionResource } from './built-in-kinds.ts'
import { applyQueries, deleteBody, objectOf, writeQuery, writtenOf } from './call-form.ts'
import { createCredentials } from './credentials.ts'
import { createDiscovery, type Discovery } from './discovery.ts'
import { createGate, type Gate, type GateLimits } from './gate.ts'
import { encodeJson } from './json.ts'
import type { CallOptions, Kube, KubeList, RawOptions } from './kube.ts'
import type { KubeConfig } from './kube-config.ts'
import { listPages } from './list.ts'
import { streamList } from './list-stream.ts'
import type { Kind } from './object.ts'
import { collectionPath, objectPath, withQuery } from './paths.ts'
import { createTransport, errorOfSend, type OpenAnswer, type Send, type Transport } from './transport.ts'
import { watchEvents } from './watch.ts'

export interface KubeOptions {
  clock?: Clock
  /** Environment of credential plugins, which need at least PATH; default none. */
  env?: Readonly<Record<string, string | undefined>>
  userAgent?: string
  /** Ends every call of this client. */
  signal?: AbortSignal
  limits?: Partial<GateLimits> & { timeoutMs?: number; answerBytesMax?: number; watchLineBytesMax?: number }
}

/** Nothing is sent before the first call. `close()` ends every call that is still under way. */
export function openKube(config: KubeConfig, options: KubeOptions = {}): Kube {
  const clock = options.clock ?? systemClock
  const limits = {
    inFlight: 32,
    qps: 0,
    burst: 100,
    timeoutMs: 30_000,
    answerBytesMax: 64 * MIB,
    watchLineBytesMax: 8 * MIB,
    ...options.limits,
  }
  const ending = new AbortController()
  const signal = options.signal ? AbortSignal.any([options.signal, ending.signal]) : ending.signal
  const gate = createGate({ clock }, limits)
  const credentials = createCredentials({ clock, env: options.env ?? {} }, config)
  const transport = createTransport({ config, credentials, gate, clock, signal }, { ...limits, userAgent: options.userAgent ?? 'brokkr' })
  const close = async (): Promise<void> => {
    ending.abort(new Error(`the client of ${config.server} was closed`))
    await transport.close()
  }
  return kubeOn(
    {
      clock,
      config,
      transport,
      gate,
      discovery: createDiscovery({ transport, clock }),
      watchLineBytesMax: limits.watchLineBytesMax,
      answerBytesMax: limits.answerBytesMax,
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
  gate: Gate
  discovery: Discovery
  watchLineBytesMax: number
  answerBytesMax: number
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
  const send = (request: Omit<Send, keyof CallOptions>, options: CallOptions): Promise<Answer> =>
    transport.send({ ...request, ...callOf(defaults, options) })
  /** Where a whole collection is not found, its kind may have gone since it was looked up: then that is the answer. */
  const notFoundOf = async (kind: Kind, options: CallOptions, error: unknown): Promise<never> => {
    if (hasReason(error, 'NotFound')) {
      await discovery.refresh(options.signal ?? defaults.signal)
      await resolve(kind, options)
    }
    throw error
  }

  const opening =
    (options: CallOptions) =>
    (request: Omit<Send, keyof CallOptions>): Promise<OpenAnswer> =>
      transport.open({ ...request, ...callOf(defaults, options), ends: true })

  /** Well-known kinds are asked for without looking them up; where they are not served, discovery says why. */
  async function underKnownPath<T>(kind: Kind, options: CallOptions, work: (resource: CollectionResource) => Promise<T>): Promise<T> {
    const signals = [options.signal ?? defaults.signal]
    try {
      const known = builtInResource(kind)
      if (!known) return await work(await resolve(kind, options)).catch((error) => notFoundOf(kind, options, error))
      return await work(known).catch(async (error: unknown) => {
        if (!hasReason(error, 'NotFound')) throw error
        return work(await resolve(kind, options))
      })
    } catch (error) {
      throw errorOfSend(`list ${kind.kind}`, error, signals)
    }
  }

  const kube: Kube = {
    server: parts.config.server,
    namespace: parts.config.namespace,
    discovery,
    async get(ref, options = {}) {
      const path = objectPath(await resolve(ref, options), ref, options.subresource)
      return objectOf(await send({ method: 'GET', path, ...(options.metadataOnly ? { accept: METADATA_ONLY } : {}) }, options), ref)
    },
    async find(ref, options = {}) {
      try {
        return await kube.get(ref, options)
      } catch (error) {
        if (hasReason(error, 'NotFound')) return undefined
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
          send: ({ signal, ...request }) => send(request, { ...options, signal }).catch((error) => notFoundOf(kind, options, error)),
          resolve: () => resolve(kind, options),
        },
        kind,
        { ...options, signal: options.signal ?? defaults.signal },
      ),
    scan: (kind, options, taker) =>
      underKnownPath(kind, options, (resource) =>
        streamList({ open: opening(options), resource, bytesMax: parts.answerBytesMax }, kind, options, taker),
      ),
    async create(object, options = {}) {
      const path = collectionPath(await resolve(object, options), object.metadata.namespace)
      return objectOf(await send({ method: 'POST', path: withQuery(path, writeQuery(options)), body: encodeJson(object) }, options), object)
    },
    async replace(object, options = {}) {
      const path = objectPath(await resolve(object, options), object.metadata, options.subresource)
      return objectOf(await send({ method: 'PUT', path: withQuery(path, writeQuery(options)), body: encodeJson(object) }, options), object)
    },
    async patch(ref, patch, options = {}) {
      const path = withQuery(objectPath(await resolve(ref, options), ref, options.subresource), writeQuery(options))
      return objectOf(
        await send({ method: 'PATCH', path, body: encodeJson(patch.body), contentType: PATCH_TYPES[patch.type] }, options),
        ref,
      )
    },
    async apply(object, options) {
      // Mostly known, and waiting for what is known would cost every call of a large set a turn.
      const resource = discovery.known(object) ?? (await resolve(object, options))
      const path = objectPath(resource, object.metadata, options.subresource) + applyQuery(options)
      const startedMs = clock.monotonicMs()
      const answer = await send({ method: 'PATCH', path, body: encodeJson(object), contentType: APPLY_TYPE }, options)
      return writtenOf(answer, object, { tookMs: clock.monotonicMs() - startedMs, isTrial: options.dryRun === true })
    },
    async delete(ref, options = {}) {
      const path = withQuery(objectPath(await resolve(ref, options), ref), { dryRun: options.dryRun ? 'All' : undefined })
      const left = objectOf(await send({ method: 'DELETE', path, body: encodeJson(deleteBody(options)) }, options), ref)
      return left.kind === 'Status' ? undefined : left
    },
    watch: (kind, options = {}) =>
      watchEvents(
        {
          open: (request) => transport.open({ ...request, ...callOf(defaults, options) }),
          resolve: async () => builtInResource(kind) ?? resolve(kind, options),
          lineBytesMax: parts.watchLineBytesMax,
        },
        kind,
        options,
      ),
    request: (method, path, options = {}) => send({ method, ...rawOf(path, options) }, options),
    open: (path, options = {}) =>
      transport.open({ method: 'GET', accept: '*/*', path: withQuery(path, options.query ?? {}), ...callOf(defaults, options) }),
    with: (more) => kubeOn(parts, { ...defaults, ...more }),
    setLimits: (limits) => parts.gate.set(limits),
    close: () => parts.close(),
  }
  return kube
}

const callOf = (defaults: CallOptions, options: CallOptions): CallOptions => ({
  signal: options.signal ?? defaults.signal,
  timeoutMs: options.timeoutMs ?? defaults.timeoutMs,
  as: options.as ?? defaults.as,
  urgent: options.urgent,
  guard: options.guard ?? defaults.guard,
})

function rawOf(path: string, options: RawOptions): Pick<Send, 'path' | 'body' | 'accept' | 'contentType'> {
  const body = options.body === undefined || typeof options.body === 'string' ? options.body : encodeJson(options.body)
  return { path: withQuery(path, options.query ?? {}), accept: options.accept, contentType: options.contentType, body }
}
