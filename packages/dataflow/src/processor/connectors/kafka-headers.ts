// Headers of a Kafka message in its metadata, and back. People see texts; what text cannot carry (bytes that are no UTF-8, a name that
// comes twice) travels beside them under a symbol, which copies of the metadata keep, so that a sink writes the very same headers.
import { isUtf8 } from 'node:buffer'
import { type JsonObject, type Metadata, setKey } from '@brokkr/contract/dataflow/json.ts'

export type RawHeader = readonly [Buffer | null, Buffer | null]
const exactHeaders = Symbol('exact headers')
type WithExact = { readonly [exactHeaders]?: readonly RawHeader[] }

/** What belongs into the metadata: nothing when there are none. */
export function headerMetadata(entries: readonly RawHeader[]): Metadata {
  if (entries.length === 0) return {}
  const headers: JsonObject = {}
  let isExact = true
  for (const [name, value] of entries) {
    const key = name?.toString() ?? ''
    isExact &&= name !== null && isUtf8(name) && (value === null || isUtf8(value)) && !Object.hasOwn(headers, key)
    setKey(headers, key, value?.toString() ?? null)
  }
  return isExact ? { headers } : { headers, ...({ [exactHeaders]: entries } as object) }
}

/** The headers to write; undefined when there are none. */
export function headersOf(metadata: Metadata): Map<Buffer, Buffer> | undefined {
  const exact = (metadata as WithExact)[exactHeaders]
  if (exact !== undefined) return new Map(exact.map(([name, value]) => [name ?? Buffer.alloc(0), value as Buffer]))
  const headers = metadata['headers']
  if (typeof headers !== 'object' || headers === null) return undefined
  // The library takes null for a header without a value, whatever its types say.
  const entries = Object.entries(headers).map(([name, value]): [Buffer, Buffer] => [Buffer.from(name), headerValue(value) as Buffer])
  return entries.length === 0 ? undefined : new Map(entries)
}

const headerValue = (value: unknown): Buffer | null =>
  value === null ? null : Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
