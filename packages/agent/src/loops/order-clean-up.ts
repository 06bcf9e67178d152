// Deletes what finished work orders left behind, a day after they ended: Jobs and BuildRuns that we made for them, by uid.

import { hasReason } from '@brokkr/kube/api-error.ts'
import { textAt } from '@brokkr/kube/fields.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { type KubeObject, selectorOf } from '@brokkr/kube/object.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { OWNER_LABEL } from '../reconcile/marks.ts'
import { resultOf } from '../work-orders/build.ts'
import { endOf } from '../work-orders/custom.ts'
import { ORDER_LABEL } from '../work-orders/order.ts'

export interface OrderCleanUpDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly agentId: string
  readonly afterMs: number
  readonly namespaces: () => readonly string[] | null
}
const kinds = [
  { kind: { apiVersion: 'batch/v1', kind: 'Job' }, isOver: (object: KubeObject) => endOf(object) !== null },
  { kind: { apiVersion: 'shipwright.io/v1beta1', kind: 'BuildRun' }, isOver: (object: KubeObject) => resultOf(object) !== null },
]

export const orderCleanUpLoop = (deps: OrderCleanUpDeps): Loop => ({
  name: 'order-clean-up',
  everyMs: Math.min(600_000, deps.afterMs),
  run: async (signal) => {
    let deleted = 0
    for (const { kind, isOver } of kinds)
      for (const object of await ofOrders(deps, kind, signal)) {
        const endedMs = Date.parse(textAt(object, 'status', 'completionTime') ?? object.metadata.creationTimestamp ?? '')
        if (!isOver(object) || !(deps.clock.now() - endedMs >= deps.afterMs)) continue
        const { namespace, name, uid } = object.metadata
        await deps.kube.delete({ ...kind, namespace, name }, { uid, propagation: 'Background', signal })
        deleted++
      }
    return { deleted }
  },
})

async function ofOrders({ kube, agentId, namespaces }: OrderCleanUpDeps, kind: { apiVersion: string; kind: string }, signal: AbortSignal) {
  const labelSelector = `${selectorOf({ [OWNER_LABEL]: agentId })},${ORDER_LABEL}`
  try {
    const lists = (namespaces() ?? [undefined]).map((namespace) => kube.list(kind, { namespace, labelSelector, signal }))
    return (await Promise.all(lists)).flatMap(({ items }) => items)
  } catch (error) {
    // A cluster without Shipwright has no BuildRuns.
    if (hasReason(error, 'UnknownKind', 'Forbidden')) return []
    throw error
  }
}
