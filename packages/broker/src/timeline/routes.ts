// The timeline of all changes.
import type { BrokerDeps } from '../deps.ts'
import { newestFirst } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { readEntries, readRecords } from './read-timeline.ts'

const recordsMax = 2000

export const handleList: Handler<'listTimeline', BrokerDeps> = async ({ sql }, request) => {
  const { from, to, step } = request.query
  const records = await page(request, newestFirst, {
    name: 'listTimeline',
    cap: recordsMax,
    limitMax: recordsMax,
    read: ({ after: [after_at, after_id], limit }) => readRecords(sql, { after_at, after_id, from: from ?? null, to: to ?? null, limit }),
  })
  return readEntries(sql, records, step)
}
