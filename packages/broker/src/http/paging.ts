// One page of a list: where it starts, where it ends, and how the caller goes on. The body stays a bare array; what is more is told
// by headers. Without limit and cursor a list is whole up to its cap, and says so when it was cut.
import type { EndpointName } from '@brokkr/contract/endpoints.ts'
import type { RequestContext } from './handler.ts'
import { readListCursor, writeListCursor } from './list-cursor.ts'
import type { ListOrder, SortKey } from './list-order.ts'

export interface List<Row, Key extends SortKey> {
  readonly name: EndpointName
  /** Most rows without a limit. */
  readonly cap: number
  /** Up to `limit` rows behind `after`. */
  readonly read: (from: { readonly after: Key; readonly limit: number }) => Promise<Row[]>
  /** What a row weighs, where rows can be heavy. */
  readonly bytesOf?: (row: NoInfer<Row>) => number
}
type Paged = Pick<RequestContext, 'reply' | 'path' | 'search' | 'principal'> & {
  readonly params?: unknown
  readonly query: { readonly limit?: number | undefined; readonly cursor?: string | undefined } & Readonly<Record<string, unknown>>
}

const limitMax = 1000
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
  const most = isWhole ? list.cap : Math.min(limit ?? list.cap, limitMax)
  // One row more than fits tells that there is more.
  const rows = await list.read({ after, limit: most + 1 })
  const shown = rows.slice(0, fitting(rows.slice(0, most), list.bytesOf))
  const last = shown.at(-1)
  if (shown.length < rows.length && last !== undefined) tellMore(request, { cursor: writeListCursor(identity, order.keyOf(last)), isWhole })
  return shown
}

/** How many of the rows fit into a page; always the first. */
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

/** A path as it was sent may hold what would end the reference early. */
const plainPath = (path: string): string => path.replaceAll(/[^\w\-./~%!$&'()*+,;=:@]/g, encodeURIComponent)

/** A row whose only long part is a text that people write. */
export const bytesOfDescribed = ({ description }: { readonly description: string | null }): number =>
  512 + Buffer.byteLength(description ?? '')
