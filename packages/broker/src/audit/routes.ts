// The audit log.
import type { AuditLog } from '@brokkr/contract/audit/audit-log.ts'
import type { BrokerDeps } from '../deps.ts'
import { type ListOrder, newestFirst } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import * as auditLogs from './store.ts'

const [limitMax, offsetMax, countedMax] = [1000, 10_000, 100_000]
const newestByTimestamp: ListOrder<{ timestamp: string; id: string }, readonly [string, string]> = {
  ...newestFirst,
  keyOf: ({ timestamp, id }) => [timestamp, id],
}

export const handleList: Handler<'listAuditLogs', BrokerDeps> = async ({ sql }, request) => {
  const { limit: requestedLimit, offset: requestedOffset, cursor, ...filters } = request.query
  const limit = Math.min(Math.max(requestedLimit, 1), limitMax)
  const offset = cursor === undefined ? Math.min(Math.max(requestedOffset, 0), offsetMax) : 0
  const filter = toAuditFilter(filters)
  const pagedRequest = { ...request, query: { ...filters, limit, ...(cursor === undefined ? {} : { cursor }) } }
  const rows = await page(pagedRequest, newestByTimestamp, {
    name: 'listAuditLogs',
    cap: limitMax,
    read: ({ after: [after_timestamp, after_id], limit: rowLimit }) =>
      auditLogs.list(sql, { ...filter, after_timestamp, after_id, offset, limit: rowLimit }),
  })
  const { total } = await auditLogs.total(sql, { ...filter, most: countedMax })
  return { logs: rows.map(toAuditLog), total, count: rows.length, limit, offset }
}

type Filters = Partial<Record<'actor_type' | 'actor_id' | 'action' | 'resource_type' | 'resource_id' | 'from' | 'to', string | undefined>>

function toAuditFilter({ actor_type, actor_id, action, resource_type, resource_id, from, to }: Filters): auditLogs.AuditFilter {
  const isPrefix = action?.endsWith('*') === true
  return {
    actor_type: actor_type ?? null,
    actor_id: actor_id ?? null,
    action: isPrefix ? null : (action ?? null),
    action_prefix: isPrefix ? action.slice(0, -1) : null,
    resource_type: resource_type ?? null,
    resource_id: resource_id ?? null,
    from: from ?? null,
    to: to ?? null,
  }
}

/** Leaves out an unknown address and user agent. */
function toAuditLog({ ip_address, user_agent, ...row }: Awaited<ReturnType<typeof auditLogs.list>>[number]): AuditLog {
  return { ...row, ...(ip_address === null ? {} : { ip_address }), ...(user_agent === null ? {} : { user_agent }) }
}
