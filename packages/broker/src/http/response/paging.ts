// One page of a list: start, end and link to the next page. The body is a bare array; the rest is in headers. Without limit and cursor
// the whole list up to its cap is returned, and a header tells if it was truncated.
import type { EndpointName } from '@brokkr/contract/endpoints.ts'
import type { RequestContext } from '../server/handler.ts'
import { type ListOrder, readListCursor, type SortKey, writeListCursor } from './list-order.ts'

export interface List<Row, Key extends SortKey> {
  readonly name: EndpointName
  /** Maximum number of rows without a limit. */
  readonly cap: number
  /** Maximum number of rows with a limit; default 1000. */
  readonly limitMax?: number
  /** Reads up to `limit` rows after `after`. */
  readonly read: (from: { readonly after: Key; readonly limit: number }) => Promise<Row[]>
  /** Size of a row, for lists with large rows. */
  readonly bytesOf?: (row: NoInfer<Row>) => number
}
type Paged = Pick<RequestContext, 'reply' | 'path' | 'search' | 'principal'> & {
  readonly params?: unknown
  readonly query: { readonly limit?: number | undefined; readonly cursor?: string | undefined } & Readonly<Record<string, unknown>>
}

const defaultLimitMax = 1000
const pageBytesMax = 8 * 1024 * 1024

export async function page<Row extends Ordered, Ordered, Key extends SortKey>(
  request: Paged,
  order: ListOrder<Ordered, Key>,
  list: List<Row, Key>,
): Promise<Row[]> {
  const { limit, cursor, ...filters } = request.query
  const whose = request.principal.kind === 'admin' ? null : request.principal.id
  const identity = [list.name, request.params ?? null, filters, whose]
  const after = cursor === undefined ? order.first : readListCursor(identity, cursor, order)
  const isWhole = limit === undefined && cursor === undefined
  const most = isWhole ? list.cap : Math.min(limit ?? list.cap, list.limitMax ?? defaultLimitMax)
  // One additional row shows whether there are more.
  const rows = await list.read({ after, limit: most + 1 })
  const shown = rows.slice(0, fitting(rows.slice(0, most), list.bytesOf))
  const last = shown.at(-1)
  if (shown.length < rows.length && last !== undefined) tellMore(request, { cursor: writeListCursor(identity, order.keyOf(last)), isWhole })
  return shown
}

/** Number of rows that fit into a page, at least one. */
function fitting<Row>(rows: readonly Row[], bytesOf: List<Row, SortKey>['bytesOf']): number {
  if (bytesOf === undefined) return rows.length
  let bytes = 0
  const end = rows.findIndex((row, index) => {
    bytes += bytesOf(row)
    return index > 0 && bytes > pageBytesMax
  })
  return end === -1 ? rows.length : end
}

function tellMore({ reply, path, search }: Paged, { cursor, isWhole }: { cursor: string; isWhole: boolean }): void {
  const query = new URLSearchParams(search)
  query.set('cursor', cursor)
  reply.setHeader('link', `<${plainPath(path)}?${query.toString()}>; rel="next"`)
  reply.setHeader('x-next-cursor', cursor)
  if (isWhole) reply.setHeader('x-truncated', 'true')
}

/** Escapes characters of the path that would end the link early. */
const plainPath = (path: string): string => path.replaceAll(/[^\w\-./~%!$&'()*+,;=:@]/g, encodeURIComponent)

/** Size of a row whose only long field is its description. */
export const estimateRowBytes = ({ description }: { readonly description: string | null }): number =>
  512 + Buffer.byteLength(description ?? '')
