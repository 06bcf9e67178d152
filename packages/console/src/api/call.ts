// Calls the broker by endpoint name, typed by the contract. The session cookie authenticates; the header proves to the broker that the
// console made the request. No credential is ever stored here.
import { ApiError, ConnectionError, createClient } from '@brokkr/client'
import type { Call, EndpointName, Output } from '@brokkr/contract/endpoints.ts'

/** The feed is a stream and has its own reader (live.ts). */
export type CallName = Exclude<EndpointName, 'watch' | 'agentStream'>

/** A refused or failed call: what, where, why, what next, and whether trying again can help. */
export class CallError extends Error {
  override readonly name = 'CallError'
  readonly endpoint: CallName
  /** 0: no answer. */
  readonly status: number
  readonly code: string
  readonly details: Readonly<Record<string, unknown>>
  readonly requestId: string | null
  readonly next: string | null

  constructor(endpoint: CallName, message: string, answer: Answer) {
    super(message)
    this.endpoint = endpoint
    this.status = answer.status
    this.code = answer.code
    this.details = answer.details ?? {}
    this.requestId = answer.requestId ?? null
    this.next = answer.next ?? null
  }

  get isTransient(): boolean {
    return this.status === 0 || this.status === 408 || this.status === 429 || (this.status >= 500 && this.status !== 501)
  }
}

interface Answer {
  readonly status: number
  readonly code: string
  readonly details?: Readonly<Record<string, unknown>> | undefined
  readonly requestId?: string | null | undefined
  readonly next?: string | undefined
}

export interface Page<Row> {
  readonly rows: Row
  /** Cursor of the next page; null at the end. */
  readonly next: string | null
}

export interface SendOptions {
  readonly signal?: AbortSignal | undefined
  /** Sign-in alone sends a key; it is not kept. */
  readonly pak?: string
}

// Reads are repeated by their hooks (use-call.ts), which show the failure meanwhile.
const client = createClient({ baseUrl: '', retries: 0 })

export async function call<N extends CallName>(name: N, input: Call<N>, options: SendOptions = {}): Promise<Output<N>> {
  return (await send(name, input, options)).body as Output<N>
}

export async function callPage<N extends CallName>(name: N, input: Call<N>, options: SendOptions = {}): Promise<Page<Output<N>>> {
  const { body, header } = await send(name, input, options)
  return { rows: body as Output<N>, next: header('x-next-cursor') }
}

async function send<N extends CallName>(name: N, input: Call<N>, { signal, pak }: SendOptions) {
  try {
    return await client.call(name, input, {
      headers: { 'x-brokkr-console': '1', ...(pak === undefined ? {} : { authorization: `Bearer ${pak}` }) },
      ...(signal === undefined ? {} : { signal }),
    })
  } catch (error) {
    throw toCallError(name, error)
  }
}

function toCallError(name: CallName, error: unknown): unknown {
  if (error instanceof ConnectionError) return new CallError(name, 'the broker does not respond', { status: 0, code: 'unreachable' })
  if (error instanceof ApiError) return new CallError(name, error.message, error)
  return error
}

/** The name of the operation in the API reference. */
export const describeEndpoint = (name: CallName): string => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
