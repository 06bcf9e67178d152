// Tells the broker what stands in the cluster because of each stack: everything after a start, then what has changed. A broker that
// has lost what the changes rest on gets everything again; one that knows no inventories is left alone for a while.
import { ApiError } from '@brokkr/contract/error.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import type { Member } from '@brokkr/kube/applyset.ts'
import { groupKindText } from '@brokkr/kube/object.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { isWorkload } from '../health/observe.ts'
import type { Children } from '../inventory/children.ts'
import { deltaOf, nodesOf, type Told, toldOf, type Unwell } from '../inventory/nodes.ts'
import { isNotServed } from './send-events.ts'

export interface InventoryDeps {
  readonly clock: Clock
  readonly running: () => readonly { readonly stackId: StackId; readonly rev: number; readonly members: readonly Member[] }[]
  readonly children: Pick<Children, 'of' | 'watch'>
  readonly unwell: (stackId: StackId) => Unwell
  readonly send: (report: object, signal: AbortSignal) => Promise<void>
  readonly everyMs: () => number
}
export interface InventoryLoop extends Loop {
  /** Something about this stack may be otherwise now. */
  touch(stackId: StackId): void
  /** What members own has changed; whose it is shows when somebody looks. */
  touchOwners(): void
  /** Another session, perhaps with a broker that has forgotten. */
  tellAllAgain(): void
}
const notServedMs = 600_000

const mayOwn = (member: Member): boolean => isWorkload(member) || groupKindText(member) === 'Service'

export function inventoryLoop(deps: InventoryDeps): InventoryLoop {
  const told = new Map<StackId, { readonly rev: number; readonly nodes: Told }>()
  const touched = new Set<StackId>()
  /** Asked every few seconds of thousands of members, and a list of them never changes. */
  const owning = new WeakMap<readonly Member[], boolean>()
  let ownersTouched = true
  let restUntilMs = Number.NEGATIVE_INFINITY

  function hasOwners(members: readonly Member[]): boolean {
    const known = owning.get(members) ?? members.some(mayOwn)
    owning.set(members, known)
    return known
  }

  /** False: nothing was new. */
  async function tell(stack: ReturnType<InventoryDeps['running']>[number], signal: AbortSignal): Promise<boolean> {
    const { stackId, rev, members } = stack
    const nodes = nodesOf(members, (uid) => deps.children.of(uid), deps.unwell(stackId))
    const before = told.get(stackId)
    const delta = deltaOf(nodes, before?.nodes)
    if (delta === null && before?.rev === rev) return false
    await deps.send({ stack_id: stackId, rev, ...(delta ?? { full: false, nodes: [], removed_uids: [] }) }, signal)
    told.set(stackId, { rev, nodes: toldOf(nodes) })
    return true
  }

  return {
    name: 'inventory',
    everyMs: deps.everyMs,
    touch: (stackId) => void touched.add(stackId),
    touchOwners: () => {
      ownersTouched = true
    },
    tellAllAgain: () => {
      told.clear()
      restUntilMs = Number.NEGATIVE_INFINITY
    },
    run: async (signal) => {
      const running = deps.running()
      deps.children.watch(running.some(({ members }) => hasOwners(members)))
      if (deps.clock.monotonicMs() < restUntilMs) return {}
      const runs = new Set(running.map(({ stackId }) => stackId))
      for (const stackId of told.keys()) if (!runs.has(stackId)) told.delete(stackId)
      const isDue = ({ stackId, members }: (typeof running)[number]) =>
        touched.has(stackId) || !told.has(stackId) || (ownersTouched && hasOwners(members))
      const due = running.filter(isDue)
      touched.clear()
      ownersTouched = false
      let sent = 0
      for (const [at, stack] of due.entries()) {
        try {
          if (await tell(stack, signal)) sent++
        } catch (error) {
          signal.throwIfAborted()
          if (isNotServed(error)) restUntilMs = deps.clock.monotonicMs() + notServedMs
          // Told again in full: it has lost what we built on, or nobody knows whether it heard.
          told.delete(stack.stackId)
          if (error instanceof ApiError && error.code === 'inventory_base_unknown') continue
          for (const { stackId } of due.slice(at + 1)) touched.add(stackId)
          break
        }
      }
      return { sent }
    },
  }
}
