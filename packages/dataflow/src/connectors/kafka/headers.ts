// Maps Kafka headers to metadata and back. Metadata shows text; bytes that are not UTF-8 and repeated names are kept under a symbol, which
// copies of the metadata keep, so that a sink writes identical headers.
import { isUtf8 } from 'node:buffer'
import { type JsonObject, type Metadata, setKey } from '@brokkr/contract/dataflow/language/json.ts'

export type RawHeader = readonly [Buffer | null, Buffer | null]
const exactHeaders = Symbol('exact headers')
type WithExact = { readonly [exactHeaders]?: readonly RawHeader[] }

/** Entries for the metadata; empty without headers. */
export function toHeaderMetadata(entries: readonly RawHeader[]): Metadata {
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

/** Headers to write; undefined without headers. */
export function toKafkaHeaders(metadata: Metadata): Map<Buffer, Buffer> | undefined {
  const exact = (metadata as WithExact)[exactHeaders]
  if (exact !== undefined) return new Map(exact.map(([name, value]) => [name ?? Buffer.alloc(0), value as Buffer]))
  const headers = metadata['headers']
  if (typeof headers !== 'object' || headers === null) return undefined
  // The library accepts null for a header without a value, against its types.
  const entries = Object.entries(headers).map(([name, value]): [Buffer, Buffer] => [Buffer.from(name), headerValue(value) as Buffer])
  return entries.length === 0 ? undefined : new Map(entries)
}

const headerValue = (value: unknown): Buffer | null =>
  value === null ? null : Buffer.from(typeof value === 'string' ? value : JSON.stringify(value))
