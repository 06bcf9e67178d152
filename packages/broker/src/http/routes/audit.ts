// The audit log, in pages.
import type { AuditLog } from '@brokkr/contract/audit.ts'
import type { BrokerDeps } from '../../deps.ts'
import * as auditLogs from '../../store/audit-logs.ts'
import type { Handler } from '../handler.ts'
import { type ListOrder, newestFirst } from '../list-order.ts'
import { page } from '../paging.ts'

const [limitMax, offsetMax, countedMax] = [1000, 10_000, 100_000]
const newest: ListOrder<{ timestamp: string; id: string }, readonly [string, string]> = {
  ...newestFirst,
  keyOf: ({ timestamp, id }) => [timestamp, id],
}

export const handleList: Handler<'listAuditLogs', BrokerDeps> = async ({ sql }, request) => {
  const { limit: wantedLimit, offset: wantedOffset, cursor, ...filters } = request.query
  const limit = Math.min(Math.max(wantedLimit, 1), limitMax)
  const offset = cursor === undefined ? Math.min(Math.max(wantedOffset, 0), offsetMax) : 0
  const filter = filterOf(filters)
  const paged = { ...request, query: { ...filters, limit, ...(cursor === undefined ? {} : { cursor }) } }
  const rows = await page(paged, newest, {
    name: 'listAuditLogs',
    cap: limitMax,
    read: ({ after: [after_timestamp, after_id], limit: most }) =>
      auditLogs.list(sql, { ...filter, after_timestamp, after_id, offset, limit: most }),
  })
  const { total } = await auditLogs.total(sql, { ...filter, most: countedMax })
  return { logs: rows.map(shown), total, count: rows.length, limit, offset }
}

type Filters = Partial<Record<'actor_type' | 'actor_id' | 'action' | 'resource_type' | 'resource_id' | 'from' | 'to', string | undefined>>

function filterOf({ actor_type, actor_id, action, resource_type, resource_id, from, to }: Filters): auditLogs.AuditFilter {
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

/** Where a call came from is left out when nobody knows. */
function shown({ ip_address, user_agent, ...row }: Awaited<ReturnType<typeof auditLogs.list>>[number]): AuditLog {
  return { ...row, ...(ip_address === null ? {} : { ip_address }), ...(user_agent === null ? {} : { user_agent }) }
}
