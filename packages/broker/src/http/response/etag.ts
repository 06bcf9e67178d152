// Entity tags. A row's tag is weak and derived from its last change; a manifest's tag is its checksum. A client that has the current
// version gets 304; a write based on an older version is rejected.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Answered, RequestContext } from '../server/handler.ts'

type EtagRequest = Pick<RequestContext, 'headers' | 'reply'>

/** The row with its tag, or 304 if the client has it. */
export function withTag<Row extends { readonly updated_at: string }>(request: EtagRequest, row: Row): Row | Answered {
  return respondWithTag(request, weakTag(row.updated_at), () => row)
}

/** The changed row with its new tag. */
export function setEtag<Row extends { readonly updated_at: string }>({ reply }: Pick<RequestContext, 'reply'>, row: Row): Row {
  reply.setHeader('etag', weakTag(row.updated_at))
  return row
}

export function respondWithTag<Value>({ headers, reply }: EtagRequest, tag: string, value: () => Value): Value | Answered {
  reply.setHeader('etag', tag)
  const known = headers['if-none-match']
  return known !== undefined && names(known, tag) ? reply.empty(304) : value()
}

/** Called with the current row under its lock: throws if the client expects another version. */
export type Precondition = (row: { readonly updated_at: string }) => void

export function parsePrecondition({ headers }: Pick<RequestContext, 'headers'>): Precondition {
  const wanted = headers['if-match']
  return (row) => {
    if (wanted === undefined || names(wanted, weakTag(row.updated_at))) return
    throw new ApiError('precondition_failed', 'the resource changed after it was read: read it again, then repeat the change')
  }
}

const weakTag = (updatedAt: string): string => `W/"${updatedAt}"`

/** A list of tags, or `*` for any. Weak and strong tags are compared alike: ours differ in their text. */
function names(list: string, tag: string): boolean {
  const opaque = tag.replace(/^W\//, '')
  return list.split(',').some((entry) => ['*', opaque].includes(entry.trim().replace(/^W\//, '')))
}
