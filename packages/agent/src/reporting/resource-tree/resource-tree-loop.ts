// Reports the resource tree of each stack: completely after a start, then changes. A broker without the base gets the complete tree
// again; one without the operation is skipped for ten minutes.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { StackId } from '@brokkr/contract/wire.ts'
import { groupKindText, type Member } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Loop } from '@brokkr/runtime/loop.ts'
import { isWorkload } from '../health/observe.ts'
import { isNotServed } from '../send-events.ts'
import type { OwnedObjects } from './owned-objects.ts'
import { buildTree, type ReportedNodes, toDelta, toReportedNodes, type Unwell } from './resource-tree.ts'

export interface ResourceTreeDeps {
  readonly clock: Clock
  readonly running: () => readonly { readonly stackId: StackId; readonly rev: number; readonly members: readonly Member[] }[]
  readonly ownedObjects: Pick<OwnedObjects, 'listOwned' | 'watch'>
  readonly unwell: (stackId: StackId) => Unwell
  readonly send: (report: object, signal: AbortSignal) => Promise<void>
  readonly everyMs: () => number
}
export interface ResourceTreeLoop extends Loop {
  /** The tree of this stack may have changed. */
  touch(stackId: StackId): void
  /** Owned objects changed; the owner is determined by the next run. */
  touchOwners(): void
  /** A new session: the broker may have lost the reports. */
  resendAll(): void
}
const notServedMs = 600_000

const mayOwn = (member: Member): boolean => isWorkload(member) || groupKindText(member) === 'Service'

export function resourceTreeLoop(deps: ResourceTreeDeps): ResourceTreeLoop {
  const reported = new Map<StackId, { readonly rev: number; readonly nodes: ReportedNodes }>()
  const changedStacks = new Set<StackId>()
  /** Cached per member list, which is immutable: computed every few seconds for thousands of members. */
  const owning = new WeakMap<readonly Member[], readonly string[]>()
  let ownersChanged = true
  /** Owned objects are watched only while the broker accepts the reports. */
  let isServed = false
  let skipUntilMs = Number.NEGATIVE_INFINITY

  /** Namespaces of members that can own objects. */
  function ownerNamespaces(members: readonly Member[]): readonly string[] {
    const namespaces = owning.get(members) ?? [...new Set(members.filter(mayOwn).map(({ namespace }) => namespace))]
    owning.set(members, namespaces)
    return namespaces
  }
  const hasOwners = (members: readonly Member[]): boolean => ownerNamespaces(members).length > 0

  /** Returns false if nothing changed. */
  async function report(stack: ReturnType<ResourceTreeDeps['running']>[number], signal: AbortSignal): Promise<boolean> {
    const { stackId, rev, members } = stack
    const nodes = buildTree(members, (uid) => deps.ownedObjects.listOwned(uid), deps.unwell(stackId))
    const before = reported.get(stackId)
    const delta = toDelta(nodes, before?.nodes)
    if (delta === null && before?.rev === rev) return false
    const base = before === undefined ? {} : { base_rev: before.rev, base_nodes: before.nodes.size }
    await deps.send({ stack_id: stackId, rev, ...base, ...(delta ?? { full: false, nodes: [], removed_uids: [] }) }, signal)
    reported.set(stackId, { rev, nodes: toReportedNodes(nodes) })
    return true
  }

  return {
    name: 'inventory',
    everyMs: deps.everyMs,
    touch: (stackId) => void changedStacks.add(stackId),
    touchOwners: () => {
      ownersChanged = true
    },
    resendAll: () => {
      reported.clear()
      skipUntilMs = Number.NEGATIVE_INFINITY
    },
    run: async (signal) => {
      const running = deps.running()
      deps.ownedObjects.watch(new Set(isServed ? running.flatMap(({ members }) => ownerNamespaces(members)) : []))
      if (deps.clock.monotonicMs() < skipUntilMs) return {}
      const runningIds = new Set(running.map(({ stackId }) => stackId))
      for (const stackId of reported.keys()) if (!runningIds.has(stackId)) reported.delete(stackId)
      const isDue = ({ stackId, members }: (typeof running)[number]) =>
        changedStacks.has(stackId) || !reported.has(stackId) || (ownersChanged && hasOwners(members))
      const dueStacks = running.filter(isDue)
      changedStacks.clear()
      ownersChanged = false
      let sent = 0
      for (const [at, stack] of dueStacks.entries()) {
        try {
          if (await report(stack, signal)) sent++
          isServed = true
        } catch (error) {
          signal.throwIfAborted()
          if (isNotServed(error)) {
            isServed = false
            skipUntilMs = deps.clock.monotonicMs() + notServedMs
          }
          // Sends the complete tree again: the base is lost, or the result of the request is unknown.
          reported.delete(stack.stackId)
          if (error instanceof ApiError && error.code === 'inventory_base_unknown') continue
          for (const { stackId } of dueStacks.slice(at + 1)) changedStacks.add(stackId)
          break
        }
      }
      return { sent }
    },
  }
}
