// The contract of a client: calls by kind, on one API server, under one identity. Calls repeat nothing; callers decide (retry.ts).
// Every call ends by an answer, its time limit, or the signal; failures are KubeError, an abort throws the signal's own reason.
import type { Answer } from './answer-error.ts'
import type { Discovery } from './discovery.ts'
import type { GateLimits } from './gate.ts'
import type { Impersonation } from './kube-config.ts'
import type { Fields, Kind, KubeObject, ObjectRef } from './object.ts'
import type { Query } from './paths.ts'
import type { OpenAnswer, Send } from './transport.ts'

export interface CallOptions {
  signal?: AbortSignal | undefined
  /** Default 30 s. */
  timeoutMs?: number | undefined
  /** Acts as this identity; the client's own needs the right to impersonate it. */
  as?: Impersonation | undefined
  /** Does not wait behind other calls: for leases and probes. */
  urgent?: boolean | undefined
  /** Called right before the request leaves; a throw keeps it here. For fences such as a lost lease. */
  guard?: (() => void) | undefined
}

export interface Selection {
  /** Absent or empty: the whole cluster. */
  namespace?: string | undefined
  labelSelector?: string | undefined
  fieldSelector?: string | undefined
  /** Only metadata comes back, under the object's own apiVersion and kind. */
  metadataOnly?: boolean | undefined
}

export interface ListOptions extends CallOptions, Selection {
  /** Objects per request; default 500 at first, then as many as make about a million characters. */
  pageSize?: number | undefined
  resourceVersion?: string | undefined
}

export interface WatchOptions extends Omit<CallOptions, 'urgent'>, Selection {
  resourceVersion?: string | undefined
  /** The server sends all present objects first and a bookmark marked as the end of them; 422 where it cannot. */
  sendInitialEvents?: boolean | undefined
  /** The server ends the watch after this time. */
  serverTimeoutMs?: number | undefined
  /** Ends with TimedOut when nothing, not even a bookmark, came for so long. */
  idleMs?: number | undefined
  /** The server has accepted the watch; events may come at any time or never. */
  onOpen?: (() => void) | undefined
  /** Takes events in the portions in which they came, which costs less; the generator then brings none itself. */
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
  /** Takes fields from other managers instead of answering Conflict. */
  force?: boolean | undefined
}

export interface DeleteOptions extends CallOptions {
  /** Only this very object, not one made later under the same name. */
  uid?: string | undefined
  resourceVersion?: string | undefined
  propagation?: 'Background' | 'Foreground' | 'Orphan' | undefined
  gracePeriodSeconds?: number | undefined
  dryRun?: boolean | undefined
}

export interface RawOptions extends CallOptions {
  query?: Query
  /** Text as it is, anything else as JSON. */
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
  /** The list is asked for anew: what was handed over is of a version that no longer counts. */
  anew(): void
}

export interface WatchEvent {
  type: 'ADDED' | 'MODIFIED' | 'DELETED' | 'BOOKMARK'
  object: KubeObject
}

export interface Written {
  object: KubeObject
  /** 201: it did not exist before. */
  created: boolean
  /** The server's own clock when it answered; undefined when it did not say. */
  serverTimeMs: number | undefined
  /** From sending to answer, by our clock. */
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
  /** Undefined instead of NotFound. */
  find(ref: ObjectRef, options?: CallOptions & { metadataOnly?: boolean }): Promise<KubeObject | undefined>
  /** All pages in one list. */
  list(kind: Kind, options?: ListOptions): Promise<KubeList>
  pages(kind: Kind, options?: ListOptions): AsyncGenerator<KubeList>
  /** Hands over all objects while the rest is still on its way, some perhaps twice, and gives the version of the list. */
  scan(kind: Kind, options: ListOptions, taker: ListTaker): Promise<string>
  create(object: KubeObject, options?: WriteOptions): Promise<KubeObject>
  /** Writes the whole object; with a resourceVersion in it, only over that version. */
  replace(object: KubeObject, options?: WriteOptions): Promise<KubeObject>
  patch(ref: ObjectRef, patch: Patch, options?: WriteOptions): Promise<KubeObject>
  /** Server-side apply. */
  apply(object: KubeObject, options: ApplyOptions): Promise<Written>
  /** What is left of the object: undefined when it is gone, the object while finalizers run. */
  delete(ref: ObjectRef, options?: DeleteOptions): Promise<KubeObject | undefined>
  /** Ends when the server ends it; an ERROR event is thrown. Leaving the loop closes the connection. */
  watch(kind: Kind, options?: WatchOptions): AsyncGenerator<WatchEvent>
  /** Any path, such as `/version`; answers of 300 and more are thrown. */
  request(method: Send['method'], path: string, options?: RawOptions): Promise<Answer>
  /** A body without an end, such as the log of a container. */
  open(path: string, options?: Omit<CallOptions, 'urgent'> & { query?: Query }): Promise<OpenAnswer>
  /** The same client with these options for every call that does not name its own. */
  with(defaults: Pick<CallOptions, 'as' | 'guard' | 'timeoutMs' | 'signal'>): Kube
  setLimits(limits: Partial<GateLimits>): void
  close(): Promise<void>
}
