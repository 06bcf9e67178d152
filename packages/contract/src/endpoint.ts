// Defines an endpoint as data. The broker's routes, the OpenAPI document, the keys of the permission table and the typed client are
// derived from it. Paths contain their parameters in braces.
import { z } from 'zod'
import type { ErrorCode } from './errors.ts'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

export interface Endpoint {
  readonly method: Method
  readonly path: `/api/v1/${string}`
  readonly summary: string
  /** `join`: requires a join token. `link`: requires the token of a sign-in link in the body. Otherwise a PAK or a session is required. */
  readonly credential?: 'join' | 'link'
  readonly params?: z.ZodType
  readonly query?: z.ZodType
  readonly body?: z.ZodType
  /** `json` must be there, `optional` may be empty and is then {}, `lenient` must be there but a field that does not fit
   *  counts as not sent, `manifest` is JSON or raw YAML, `exact` is JSON whose numbers keep their digits as raw JSON. */
  readonly bodyKind?: 'json' | 'optional' | 'lenient' | 'manifest' | 'exact'
  readonly success: 200 | 201 | 202 | 204
  /** The JSON answer; left out when the body is empty, or when `stream` writes frames. */
  readonly response?: z.ZodType
  /** Media type of a text response. */
  readonly text?: 'application/yaml'
  /** A second success response with its own shape, selected by a header or the query. */
  readonly other?: { readonly status: 200 | 202; readonly response: z.ZodType }
  /** The answer is an endless line of frames and not a JSON document. */
  readonly stream?: true
  /** The response contains a secret outside its body (a cookie). Secrets in the body are detected by field name. */
  readonly issuesSecret?: true
  /** Error codes of this endpoint, without those of every operation (unauthorized, invalid_json …). */
  readonly errors?: readonly ErrorCode[]
}

export const endpoint = <const E extends Endpoint>(definition: E): E => definition

type Shape<T> = T extends z.ZodType ? z.output<T> : undefined
type RawInput<T> = T extends z.ZodType ? z.input<T> : undefined

/** Input of a handler: parsed, with defaults. */
export interface InputOf<E extends Endpoint> {
  readonly params: Shape<E['params']>
  readonly query: Shape<E['query']>
  readonly body: Shape<E['body']>
}
export type OutputOf<E extends Endpoint> = E['response'] extends z.ZodType ? z.output<E['response']> : undefined
export type OtherOf<E extends Endpoint> = E['other'] extends { readonly response: infer T extends z.ZodType } ? z.output<T> : never

/** Input of a client call: only the parts that the endpoint defines. */
export type CallOf<E extends Endpoint> = (E['params'] extends z.ZodType ? { params: RawInput<E['params']> } : unknown) &
  (E['body'] extends z.ZodType
    ? E['bodyKind'] extends 'optional'
      ? { body?: RawInput<E['body']> }
      : { body: RawInput<E['body']> }
    : unknown) &
  (E['query'] extends z.ZodType ? { query?: RawInput<E['query']> } : unknown)

/** `/api/v1/agents/{id}` and {id} → the path on the wire; every value is percent-encoded, a missing one is the caller's bug. */
export function fillPath(path: string, params: Readonly<Record<string, unknown>>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = params[name]
    if (typeof value !== 'string' || value === '') throw new TypeError(`path ${path} needs parameter ${name}`)
    return encodeURIComponent(value)
  })
}

/** Repeats the key for each item of a list and omits undefined. Returns '' or '?a=1&b=2'. */
export function queryText(query: Readonly<Record<string, unknown>> = {}): string {
  const search = new URLSearchParams()
  for (const [key, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value]) if (item !== undefined) search.append(key, String(item))
  }
  const text = search.toString()
  return text === '' ? '' : `?${text}`
}

const secretFields = ['pak', 'initial_pak', 'signing_secret', 'token']

/** Whether the answer shows something that is shown once: it is never stored, not even sealed. */
export function issuesSecret({ issuesSecret: isSaid, response }: Pick<Endpoint, 'issuesSecret' | 'response'>): boolean {
  return isSaid === true || (response instanceof z.ZodObject && secretFields.some((field) => field in response.shape))
}

/** `createStack` → `create_stack`: the operation's name in the OpenAPI document, on which generated clients depend. */
export const operationId = (name: string): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
