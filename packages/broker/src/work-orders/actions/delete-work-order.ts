// Cancels an open work order. An agent that executes it learns it when it reports the result.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import * as workOrders from '../store/work-orders.ts'

export async function deleteWorkOrder(
  deps: { sql: Sql; wakeFeed: () => void },
  { id, actor }: { id: string; actor: Actor },
): Promise<void> {
  await deps.sql.begin(async (sql) => {
    if ((await workOrders.remove(sql, { id })) === 0)
      throw new ApiError('work_order_not_found', 'no open work order has this id; finished ones stay in the log')
    await recordAuditEntry(sql, { actor, action: 'workorder.deleted', resource: { type: 'work_order', id } })
  })
  deps.wakeFeed()
}
