// Reads and writes as hooks. Keys are endpoint name and input, so that the live feed finds what a change affects (invalidate.ts).
import type { Call, Output } from '@brokkr/contract/endpoints.ts'
import {
  type InfiniteData,
  keepPreviousData,
  QueryClient,
  type UseInfiniteQueryResult,
  type UseMutationResult,
  type UseQueryResult,
  useInfiniteQuery,
  useMutation,
  useQuery,
} from '@tanstack/react-query'
import { CallError, type CallName, call, callPage, type Page } from './call.ts'

const retryMaxMs = 10_000

export const createQueries = (): QueryClient =>
  new QueryClient({
    defaultOptions: {
      queries: {
        networkMode: 'always',
        staleTime: 15_000,
        gcTime: 5 * 60_000,
        refetchOnWindowFocus: true,
        // Failures that may pass are tried again for ever, slower and slower; the panel shows the last failure meanwhile.
        retry: (_, error) => error instanceof CallError && error.isTransient,
        retryDelay: (attempt) => Math.min(retryMaxMs, 500 * 2 ** attempt),
      },
      mutations: { networkMode: 'always', retry: false },
    },
  })

export interface ReadOptions {
  readonly enabled?: boolean
  readonly everyMs?: number
  /** Shows the previous answer while another input is read, as filters need it. */
  readonly keepsPrevious?: boolean
}

export type CallResult<N extends CallName> = UseQueryResult<Output<N>>

export interface CallOptions<T> extends ReadOptions {
  /** Ends `everyMs`: the answer does not change any more. */
  readonly isFinal?: (answer: T) => boolean
}

export const useCall = <N extends CallName>(name: N, input: Call<N>, options: CallOptions<Output<N>> = {}): CallResult<N> =>
  useQuery<Output<N>>({
    queryKey: [name, input],
    queryFn: ({ signal }) => call(name, input, { signal }),
    enabled: options.enabled ?? true,
    refetchInterval: ({ state: { data } }) => (data !== undefined && options.isFinal?.(data) === true ? false : (options.everyMs ?? false)),
    ...(options.keepsPrevious === true ? { placeholderData: keepPreviousData } : {}),
  })

export type PagesResult<N extends CallName> = UseInfiniteQueryResult<InfiniteData<Page<Output<N>>>>

/** Keyset pages; `input.query` gets the cursor. */
export const usePages = <N extends CallName>(name: N, input: Call<N>, options: ReadOptions = {}): PagesResult<N> =>
  useInfiniteQuery({
    queryKey: [name, input],
    queryFn: ({ signal, pageParam }) => callPage(name, withCursor(input, pageParam), { signal }),
    initialPageParam: null as string | null,
    getNextPageParam: ({ next }) => next,
    enabled: options.enabled ?? true,
    ...(options.everyMs === undefined ? {} : { refetchInterval: options.everyMs }),
    placeholderData: keepPreviousData,
  })

const withCursor = <N extends CallName>(input: Call<N>, cursor: string | null): Call<N> =>
  cursor === null ? input : ({ ...(input as object), query: { ...(input as { query?: object }).query, cursor } } as Call<N>)

export type DeedResult<N extends CallName> = UseMutationResult<Output<N>, Error, Call<N>>

/** A change; afterwards everything on the page is read again. */
export const useDeed = <N extends CallName>(name: N, done?: (answer: Output<N>) => void): DeedResult<N> =>
  useMutation<Output<N>, Error, Call<N>>({
    mutationKey: [name],
    mutationFn: (input) => call(name, input),
    onSuccess: (answer, _, __, { client }) => {
      done?.(answer)
      void client.invalidateQueries()
    },
  })
