// Entity tags. A row's is weak and made of the time of its last change; a manifest's is its checksum. A reader that has the newest
// is told so without a body; a writer that read an older one is refused.
import { ApiError } from '@brokkr/contract/error.ts'
import type { Answered, RequestContext } from './handler.ts'

type Tagged = Pick<RequestContext, 'headers' | 'reply'>

/** The row with its tag, or 304 when the caller has it already. */
export function withTag<Row extends { readonly updated_at: string }>(request: Tagged, row: Row): Row | Answered {
  return withTagOf(request, weakTag(row.updated_at), () => row)
}

/** The row as a change left it, with its new tag. */
export function tagged<Row extends { readonly updated_at: string }>({ reply }: Pick<RequestContext, 'reply'>, row: Row): Row {
  reply.setHeader('etag', weakTag(row.updated_at))
  return row
}

export function withTagOf<Value>({ headers, reply }: Tagged, tag: string, value: () => Value): Value | Answered {
  reply.setHeader('etag', tag)
  const known = headers['if-none-match']
  return known !== undefined && names(known, tag) ? reply.empty(304) : value()
}

/** Called with the row as it is, under its lock: throws when the caller wants another. */
export type Precondition = (row: { readonly updated_at: string }) => void

export function preconditionOf({ headers }: Pick<RequestContext, 'headers'>): Precondition {
  const wanted = headers['if-match']
  return (row) => {
    if (wanted === undefined || names(wanted, weakTag(row.updated_at))) return
    throw new ApiError('precondition_failed', 'it was changed since it was read: read it again and decide anew')
  }
}

const weakTag = (updatedAt: string): string => `W/"${updatedAt}"`

/** A list of tags, or `*` for whatever is there. Weak and strong compare alike: ours differ in their text anyway. */
function names(list: string, tag: string): boolean {
  const opaque = tag.replace(/^W\//, '')
  return list.split(',').some((entry) => ['*', opaque].includes(entry.trim().replace(/^W\//, '')))
}
