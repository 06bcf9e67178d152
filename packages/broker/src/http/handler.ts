// What a handler is: permission and parsing are done, it says what happens. Types only; server.ts calls them.
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { EndpointName, Input, Other, Output } from '@brokkr/contract/endpoints.ts'
import type { ErrorCode } from '@brokkr/contract/error.ts'

/** Whoever the credential says. Made in auth.ts alone; ids in paths and bodies are compared with it, never believed. */
export interface Principal {
  readonly kind: 'admin' | 'agent' | 'generator' | 'invite'
  readonly id: string
  readonly name: string
  readonly readonly: boolean
  /** Verbs an admin key is limited to; null is all of them. */
  readonly scope: readonly string[] | null
  /** When its credential expires, by the monotonic clock: the database's time counts, whatever the clock of this machine says. */
  readonly endsAtMs: number | null
  readonly isActive: boolean
  /** The console session the caller brought instead of a key; null: a key. */
  readonly session: string | null
}

/** Where a request came from: what audit rows and log lines say of it. */
export interface Caller {
  readonly requestId: string
  readonly clientAddress: string
  readonly userAgent: string | null
}

export interface RequestContext extends Caller {
  readonly principal: Principal
  /** The thing the call is about, as permission saw it a moment ago; null where that look-up does not read it whole. */
  readonly found: unknown
  /** Path and query as they were sent, for references to other pages of the same list. */
  readonly path: string
  readonly search: string
  /** Names in lower case; a header sent several times is joined by commas. */
  readonly headers: Readonly<Record<string, string | undefined>>
  readonly reply: ReplyControl
  /** Aborted when the client has gone or the time for a first byte is over. */
  readonly signal: AbortSignal
}

/** Says that the handler has answered by one of the ways of `ReplyControl` instead of a value. */
export const answered: unique symbol = Symbol('answered')
export type Answered = typeof answered

export interface ReplyControl {
  setHeader(name: string, value: string): void
  /** Another success than the table's. The value is written by the schema the endpoint has for that status, else by its usual one. */
  setStatus(status: 200 | 201 | 202): void
  /** Of a batch that is answered item by item, at least one was denied: the audit is told. */
  deniedPart(code: ErrorCode): void
  empty(status: 200 | 204 | 304): Answered
  text(contentType: string, text: string): Answered
  /** The raw pair, for streams: from here on the handler owns the answer, its headers and its end. */
  hijack(): { readonly request: IncomingMessage; readonly response: ServerResponse }
}

type Answer<Value> = Value extends undefined ? Answered | undefined | void : Value | Answered
export type Handler<N extends EndpointName, Deps> = (
  deps: Deps,
  request: Input<N> & RequestContext,
) => Promise<Answer<Output<N>> | Other<N>>
/** One handler per endpoint of the table; the compiler finds the missing one. */
export type Handlers<Deps> = { readonly [N in EndpointName]: Handler<N, Deps> }
