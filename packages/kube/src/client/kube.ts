// The interface of a client: calls by kind, on one API server, under one identity. No call is retried; callers decide (retry.ts).
// A call ends with a response, at its time limit or by its signal. Failures are KubeError; an abort throws the signal's reason.

import type { Impersonation } from '../auth/kube-config.ts'
import type { RequestLimits } from '../http/request-limiter.ts'
import type { StreamedResponse, TransportRequest } from '../http/transport.ts'
import type { Discovery } from './discovery.ts'
import type { Fields, Kind, KubeObject, ObjectRef } from './object.ts'
import type { Query } from './paths.ts'
import type { KubeResponse } from './response-error.ts'

export interface CallOptions {
  signal?: AbortSignal | undefined
  /** Default 30 s. */
  timeoutMs?: number | undefined
  /** Identity to act as; the client's own identity needs the right to impersonate it. */
  as?: Impersonation | undefined
  /** Bypasses the request limiter: for leases and probes. */
  urgent?: boolean | undefined
  /** Called right before the request is written to its connection; a throw prevents the write. For fences such as a lost Lease. */
  guard?: (() => void) | undefined
}

export interface Selection {
  /** Absent or empty means the whole cluster. */
  namespace?: string | undefined
  labelSelector?: string | undefined
  fieldSelector?: string | undefined
  /** Returns only metadata, under the object's own apiVersion and kind. */
  metadataOnly?: boolean | undefined
}

export interface ListOptions extends CallOptions, Selection {
  /** Objects per request; default 500 for the first page, then as many as make about a million characters. */
  pageSize?: number | undefined
  resourceVersion?: string | undefined
}

export interface WatchOptions extends Omit<CallOptions, 'urgent'>, Selection {
  resourceVersion?: string | undefined
  /** The server first sends all existing objects and a bookmark that marks their end; it answers 422 if it does not support that. */
  sendInitialEvents?: boolean | undefined
  /** The server ends the watch after this time. */
  serverTimeoutMs?: number | undefined
  /** Ends with TimedOut when no event and no bookmark arrived for this long. */
  idleMs?: number | undefined
  /** Called when the server has accepted the watch. */
  onOpen?: (() => void) | undefined
  /** Receives events in the batches in which they arrived, which costs less; the generator then yields none. */
  onEvents?: ((events: WatchEvent[]) => void) | undefined
}

export interface WriteOptions extends CallOptions {
  fieldManager?: string | undefined
  dryRun?: boolean | undefined
  fieldValidation?: 'Strict' | 'Warn' | 'Ignore' | undefined
  subresource?: string | undefined
}

export interface ApplyOptions extends WriteOptions {
  fieldManager: string
  /** Takes over fields from other managers instead of failing with Conflict. */
  force?: boolean | undefined
}

export interface DeleteOptions extends CallOptions {
  /** Limits the delete to the object with this uid, so that a newer object of the same name is left alone. */
  uid?: string | undefined
  resourceVersion?: string | undefined
  propagation?: 'Background' | 'Foreground' | 'Orphan' | undefined
  gracePeriodSeconds?: number | undefined
  dryRun?: boolean | undefined
}

export interface RawOptions extends CallOptions {
  query?: Query
  /** Text is sent as it is, other values as JSON. */
  body?: unknown
  contentType?: string
  accept?: string
}

export interface KubeList {
  resourceVersion: string
  items: KubeObject[]
}

export interface ListTaker {
  take(items: KubeObject[]): void
  /** The list starts again: discard all objects received so far. */
  anew(): void
}

export interface WatchEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  object: KubeObject
}

export interface Written {
  object: KubeObject
  /** True for status 201: the object did not exist before. */
  created: boolean
  /** Time of the server's clock when it responded; undefined if the response has no date. */
  serverTimeMs: number | undefined
  /** Time from request to response, by the local clock. */
  tookMs: number
  warnings: string[]
}

/** JSON patch is a list, merge patch and strategic merge patch are objects. */
export type Patch = { type: 'merge' | 'strategic'; body: Fields } | { type: 'json'; body: readonly JsonPatchStep[] }

export interface JsonPatchStep {
  op: 'add' | 'remove' | 'replace' | 'test'
  path: string
  value?: unknown
}

export interface Kube {
  readonly server: string
  /** Default namespace of the configuration. */
  readonly namespace: string
  readonly discovery: Discovery
  get(ref: ObjectRef, options?: CallOptions & { metadataOnly?: boolean; subresource?: string }): Promise<KubeObject>
  /** Returns undefined if the server names the object as absent. Throws any other 404, such as that of a proxy or of a kind that is not served. */
  find(ref: ObjectRef, options?: CallOptions & { metadataOnly?: boolean }): Promise<KubeObject | undefined>
  /** All pages in one list. */
  list(kind: Kind, options?: ListOptions): Promise<KubeList>
  pages(kind: Kind, options?: ListOptions): AsyncGenerator<KubeList>
  /** Passes objects on while the rest of the list arrives, some possibly twice, and returns the version of the list. */
  scan(kind: Kind, options: ListOptions, taker: ListTaker): Promise<string>
  create(object: KubeObject, options?: WriteOptions): Promise<KubeObject>
  /** Replaces the whole object; with a resourceVersion in it, only that version. */
  replace(object: KubeObject, options?: WriteOptions): Promise<KubeObject>
  patch(ref: ObjectRef, patch: Patch, options?: WriteOptions): Promise<KubeObject>
  /** Server-side apply. */
  apply(object: KubeObject, options: ApplyOptions): Promise<Written>
  /** Returns undefined when the object is gone, or the object while finalizers run. */
  delete(ref: ObjectRef, options?: DeleteOptions): Promise<KubeObject | undefined>
  /** Ends when the server ends the watch; throws ERROR events. Leaving the loop closes the connection. */
  watch(kind: Kind, options?: WatchOptions): AsyncGenerator<WatchEvent>
  /** Requests any path, such as `/version`; throws on a status of 300 or more. */
  request(method: TransportRequest['method'], path: string, options?: RawOptions): Promise<KubeResponse>
  /** Opens an endless body, such as a container log. */
  open(path: string, options?: Omit<CallOptions, 'urgent'> & { query?: Query }): Promise<StreamedResponse>
  /** Returns the same client with defaults for options that a call does not set. */
  with(defaults: Pick<CallOptions, 'as' | 'guard' | 'timeoutMs' | 'signal'>): Kube
  setLimits(limits: Partial<RequestLimits>): void
  close(): Promise<void>
}
