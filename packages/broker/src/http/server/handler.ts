// Types of request handlers. The server has already authenticated, authorized and parsed the request.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { EndpointName, Input, Other, Output } from '@brokkr/contract/endpoints.ts'
import type { ErrorCode } from '@brokkr/contract/errors.ts'

/** The authenticated caller. Created only by the authenticator; ids in paths and bodies are compared with it, never trusted. */
export interface Principal {
  readonly kind: 'admin' | 'agent' | 'generator' | 'invite' | 'link'
  readonly id: string
  readonly name: string
  readonly readonly: boolean
  /** Verbs that an admin PAK is limited to; null for all. */
  readonly scope: readonly string[] | null
  /** Expiry of the credential by the monotonic clock, computed from the database's time. */
  readonly endsAtMs: number | null
  readonly isActive: boolean
  /** The console session of the caller; null if it sent a PAK. */
  readonly session: string | null
  /** Hash of the PAK that the caller sent; null if it sent another credential. The cache may be older than a rotation: an action that
   *  derives a credential compares it under a lock. */
  readonly pakHash: string | null
}

/** Origin of a request, for audit entries and logs. */
export interface Caller {
  readonly requestId: string
  readonly clientAddress: string
  readonly userAgent: string | null
}

export interface RequestContext extends Caller {
  readonly principal: Principal
  /** The resource of the request as the permission check read it; null if that lookup does not read the whole row. */
  readonly found: unknown
  /** Path and query as sent, for links to other pages of a list. */
  readonly path: string
  readonly search: string
  /** Lower-case names; repeated headers are joined by commas. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly reply: ReplyControl
  /** Aborted when the client disconnects or the time limit for the first byte expires. */
  readonly signal: AbortSignal
}

/** Returned by a handler that responded through `ReplyControl` instead of a value. */
export const answered: unique symbol = Symbol('answered')
export type Answered = typeof answered

export interface ReplyControl {
  setHeader(name: string, value: string): void
  /** Another success status than the endpoint's default; the value is written by the schema for that status, if there is one. */
  setStatus(status: 200 | 201 | 202): void
  /** At least one item of a batch was denied; recorded in the audit log. */
  deniedPart(code: ErrorCode): void
  empty(status: 200 | 204 | 304): Answered
  text(contentType: string, text: string): Answered
  /** Sends a long list page by page; the next page is read when the client has read the previous one. */
  pages(pages: AsyncIterable<readonly object[]>): Answered
  /** For streams: the handler takes over the response, its headers and its end. */
  hijack(): { readonly request: IncomingMessage; readonly response: ServerResponse }
}

type Answer<Value> = Value extends undefined ? Answered | undefined | void : Value | Answered
export type Handler<N extends EndpointName, Deps> = (
  deps: Deps,
  request: Input<N> & RequestContext,
) => Promise<Answer<Output<N>> | Other<N>>
/** One handler per endpoint; the compiler reports missing ones. */
export type Handlers<Deps> = { readonly [N in EndpointName]: Handler<N, Deps> }
