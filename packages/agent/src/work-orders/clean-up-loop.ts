// Deletes the Jobs and BuildRuns of ended work orders after a delay. Deletes by recorded UID, so labels on objects of other owners cannot
// lead to their deletion.

import { deleteObject, type KubeObject, textAt } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { isInScope } from '../policy/policy.ts'
import { impersonateGenerator } from '../reconcile/apply/impersonate.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import { workOrdersGenerator } from '../reconcile/stack-generators.ts'
import { toBuildResult } from './build.ts'
import type { ClaimStore, CreatedObject, EndedOrder } from './claim-store.ts'
import { toJobEnd } from './custom.ts'

export interface OrderCleanUpDeps extends Pick<ReconcileDeps, 'kube' | 'settings'> {
  readonly clock: Clock
  readonly log: Log
  readonly afterMs: number
  readonly claimed: Pick<ClaimStore, 'ended' | 'forget'>
}
/** Age after which a record is dropped that cannot be cleaned up, for example of a kind that no longer exists. */
const givenUpAfterMs = 30 * 86_400_000
const ordersPerRun = 200

export const orderCleanUpLoop = (deps: OrderCleanUpDeps): Loop => ({
  name: 'order-clean-up',
  everyMs: Math.min(600_000, deps.afterMs),
  run: async (signal) => {
    const impersonation = impersonateGenerator(deps, workOrdersGenerator)
    if (!impersonation.ok) return { deleted: 0 }
    const getAgeMs = ({ endedAtMs }: EndedOrder) => deps.clock.now() - endedAtMs
    const due = (await deps.claimed.ended(signal)).filter((order) => getAgeMs(order) >= deps.afterMs)
    let deleted = 0
    for (const order of due.slice(0, ordersPerRun)) {
      const results = []
      for (const object of order.created) results.push(await cleanUp(impersonation.deps, object, signal))
      deleted += results.filter((result) => result === 'deleted').length
      if (!results.includes('kept') || getAgeMs(order) >= deps.afterMs + givenUpAfterMs) await deps.claimed.forget(order.id)
    }
    return { deleted }
  },
})

type CleanUp = 'deleted' | 'gone' | 'kept'

async function cleanUp(deps: OrderCleanUpDeps, { uid, ...object }: CreatedObject, signal: AbortSignal): Promise<CleanUp> {
  const ref = { apiVersion: object.apiVersion, kind: object.kind, namespace: object.namespace, name: object.name }
  if (!isInScope(object.namespace ?? '', deps.settings.policy)) return 'kept'
  try {
    const live = await deps.kube.find(ref, { signal })
    if (live?.metadata.uid !== uid) return 'gone'
    if (!isOver(live)) return 'kept'
    await deleteObject(deps, { ref, uid }, { propagation: 'Background', signal })
    return 'deleted'
  } catch (error) {
    signal.throwIfAborted()
    deps.log.debug('object of a work order not deleted yet', { kind: ref.kind, name: ref.name, why: errorText(error) })
    return 'kept'
  }
}

const isOver = (object: KubeObject): boolean => (textAt(object, 'kind') === 'Job' ? toJobEnd(object) : toBuildResult(object)) !== null
