// Work orders: open ones and, with --field status=finished, those that ended.
import type { Client } from '@brokkr/client'
import type { WorkOrder, WorkOrderLog } from '@brokkr/contract/work-orders/work-order.ts'
import { agentNames, failNotFound } from '../../names.ts'
import { age, CliError, exitCodes } from '../../output.ts'
import { pairLines, type Resource, toQuery } from '../get/resource.ts'

export const workOrders: Resource<WorkOrder> = {
  head: ['ID', 'TYPE', 'STATUS', 'TRIES', 'AGE', 'ERROR'],
  row: (one) => [one.id, one.work_type, one.status, `${one.retry_count}/${one.max_retries}`, age(one.created_at), one.last_error ?? '-'],
  wideHead: ['CLAIMED', 'NEXT TRY'],
  wideRow: (one) => [one.claimed_at === null ? '-' : `${age(one.claimed_at)} ago`, one.next_retry_after ?? '-'],
  nameOf: ({ id }) => id,
  fields: ['status', 'work_type'],
  hasLabels: false,
  pages: (client, filter) => client.pages('listWorkOrders', { query: toQuery(filter) }),
  kinds: ['work_order'],
  describe: async (client, text) => {
    const order = await requireWorkOrder(client, text)
    const names = await agentNames(client)
    const output = await client.getWorkOrderOutput({ params: { id: order.id } })
    return {
      value: order,
      names: [order.id],
      scope: [`work_order:${order.id}`],
      lines: () => [
        ...pairLines([
          ['work order', order.id],
          ['type', order.work_type],
          ['status', order.status],
          ['agent', order.claimed_by === null ? null : (names.get(order.claimed_by) ?? order.claimed_by)],
          ['tries', `${order.retry_count} of ${order.max_retries} retries, attempt ${order.attempt}`],
          ['next try', order.next_retry_after],
          ['error', order.last_error],
          ['created', `${age(order.created_at)} ago`],
        ]),
        ...(output.text === '' ? [] : ['', output.text.trimEnd()]),
      ],
    }
  },
}

/** By id, or by the beginning of one. */
export async function requireWorkOrder(client: Client, text: string): Promise<WorkOrder> {
  return client.getWorkOrder({ params: { id: await requireOrderId(client, text) } })
}

export async function requireOrderId(client: Client, text: string): Promise<string> {
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text)) return text
  const found = new Set<string>()
  for (const list of ['listWorkOrders', 'listWorkOrderLog'] as const)
    for await (const { id } of client.items(list, {}) as AsyncIterable<WorkOrder | WorkOrderLog>)
      if (/^[0-9a-f-]{4,}$/i.test(text) && id.startsWith(text.toLowerCase())) found.add(id)
  const [first, second] = found
  if (first === undefined)
    return failNotFound({ what: 'work order', name: text, next: 'brokkr work-orders list', names: () => emptyNames() })
  if (second !== undefined)
    throw new CliError(`several work orders begin with ${text}`, { where: [...found].join(', '), exitCode: exitCodes.usage })
  return first
}

// oxlint-disable-next-line require-yield -- ids are not suggested
async function* emptyNames(): AsyncGenerator<{ name: string }> {}
