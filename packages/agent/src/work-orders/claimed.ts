// Orders that we have claimed and not yet told the end of, one Secret each in our own namespace: a process that takes over goes on
// with them. They hold the order's text, which may hold anything.
import { gunzipSync, gzipSync } from 'node:zlib'
import { hasReason } from '@brokkr/kube/api-error.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { selectorOf } from '@brokkr/kube/object.ts'
import { z } from 'zod'
import { OWNER_LABEL } from '../reconcile/marks.ts'
import { ORDER_LABEL, type Order } from './order.ts'

const Kept = z.object({
  id: z.string(),
  work_type: z.string(),
  yaml_content: z.string(),
  claim_timeout_seconds: z.int(),
  attempt: z.int(),
  claimedAtMs: z.number(),
})
const SECRET = { apiVersion: 'v1', kind: 'Secret' }
const bytesMax = 32 * 1024 * 1024

export interface ClaimedOrders {
  all(signal: AbortSignal): Promise<Order[]>
  keep(order: Order, signal: AbortSignal): Promise<void>
  forget(id: string): Promise<void>
}

export function claimedOrders(deps: { kube: Kube }, namespace: string, agentId: string): ClaimedOrders {
  const nameOf = (id: string) => `brokkr-order-${id}`
  return {
    async all(signal) {
      const labelSelector = `${selectorOf({ [OWNER_LABEL]: agentId })},${ORDER_LABEL}`
      const { items } = await deps.kube.list(SECRET, { namespace, labelSelector, signal })
      return items.flatMap((secret) => orderIn(textAt(secret, 'data', 'order.json.gz')))
    },
    async keep(order, signal) {
      const labels = { [OWNER_LABEL]: agentId, [ORDER_LABEL]: order.id }
      const data = { 'order.json.gz': gzipSync(JSON.stringify(Kept.parse(order))).toString('base64') }
      const metadata = { name: nameOf(order.id), namespace, labels }
      await deps.kube.apply(
        { ...SECRET, metadata, type: 'brokkr.io/work-order', data },
        { fieldManager: 'brokkr-agent', force: true, signal },
      )
    },
    async forget(id) {
      try {
        await deps.kube.delete({ ...SECRET, namespace, name: nameOf(id) })
      } catch (error) {
        if (!hasReason(error, 'NotFound')) throw error
      }
    },
  }
}

function orderIn(text: string | undefined): Order[] {
  try {
    const bytes = gunzipSync(Buffer.from(text ?? '', 'base64'), { maxOutputLength: bytesMax })
    return [Kept.parse(JSON.parse(bytes.toString('utf8')))]
  } catch {
    return []
  }
}
