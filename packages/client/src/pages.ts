// Reads lists page by page with the cursor of the broker.
import type { Call, EndpointName, Output } from '@brokkr/contract/endpoints.ts'
import type { CallOptions, ClientResponse } from './client.ts'

type QueryOf<N extends EndpointName> = Call<N> extends { query?: infer Q } ? NonNullable<Q> : never
/** Endpoints whose query takes a cursor, without streams. */
export type PagedName = {
  [N in EndpointName]: 'cursor' extends keyof QueryOf<N> ? ('limit' extends keyof QueryOf<N> ? N : never) : never
}[EndpointName]
export type PageItem<N extends PagedName> = Output<N> extends readonly (infer Item)[] ? Item : never

export interface PageOptions extends Pick<CallOptions, 'signal' | 'timeoutMs'> {
  /** 200 unless given. */
  readonly pageSize?: number
}

const pageSizeDefault = 200

type AnyCall = (name: never, input: never, options?: CallOptions) => Promise<ClientResponse<unknown>>

export async function* readPages(
  call: AnyCall,
  name: PagedName,
  input: object,
  { pageSize, ...options }: PageOptions = {},
): AsyncGenerator {
  const query = (input as { query?: object }).query
  for (let cursor: string | null = null; ; ) {
    const page = { ...input, query: { ...query, limit: pageSize ?? pageSizeDefault, ...(cursor === null ? {} : { cursor }) } }
    const answer: ClientResponse<unknown> = await call(name as never, page as never, options)
    yield answer.body
    cursor = answer.header('x-next-cursor')
    if (cursor === null) return
  }
}

export async function* readItems(call: AnyCall, name: PagedName, input: object, options?: PageOptions): AsyncGenerator {
  for await (const page of readPages(call, name, input, options)) yield* page as readonly unknown[]
}
