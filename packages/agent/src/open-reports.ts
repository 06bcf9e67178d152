// The loops that tell the broker how things stand: status with its events, and health. Both are woken soon after there is news,
// and not for each piece of it.
import type { Loop, RunningLoop } from '@brokkr/runtime/loop.ts'
import { Children } from './inventory/children.ts'
import { type HealthDeps, type HealthLoop, healthLoop } from './loops/health.ts'
import { type InventoryDeps, type InventoryLoop, inventoryLoop } from './loops/inventory.ts'
import type { StatusLoop } from './loops/status.ts'
import { namespacesOf } from './policy.ts'
import type { ReconcileDeps } from './reconcile/deps.ts'
import type { Outbox } from './reconcile/outbox.ts'
import type { WorkDeps } from './work.ts'

type Open = (loop: Loop) => RunningLoop

/** Starts with the broker; what happens to a stack before that waits for the first look. */
export function openHealth(
  deps: WorkDeps,
  open: Open,
  {
    reconcile,
    outbox,
    running,
    watched,
    onLooked,
  }: Pick<HealthDeps, 'running' | 'watched' | 'onLooked'> & { reconcile: ReconcileDeps; outbox: Outbox },
): Pick<HealthLoop, 'touch' | 'unwell'> {
  const { clock, log, lifecycle, agentId, broker, kube, settings } = deps
  const { agent } = settings.view
  const health = healthLoop({
    kube,
    agentId,
    clock,
    log,
    running,
    watched,
    policy: () => reconcile.settings.policy,
    send: async (reports, signal) => {
      const body = { deployment_objects: [...reports] }
      await broker.client.updateHealthStatus({ params: { id: agentId }, body }, { signal })
    },
    event: (event) => outbox.event(event),
    everyMs: () => agent.deployment_health_interval * 1000,
    isEnabled: () => agent.deployment_health_enabled,
    ...(onLooked ? { onLooked } : {}),
  })
  const loop = open(health)
  let timer: { cancel(): void } | null = null
  lifecycle.onClose('health timer', () => timer?.cancel())
  return {
    unwell: (stackId) => health.unwell(stackId),
    touch: (stackId) => {
      health.touch(stackId)
      timer ??= clock.setTimer(health.pauseMs(), () => {
        timer = null
        loop.wake()
      })
    },
  }
}

/** What stands because of each stack. */
export function openInventory(
  deps: WorkDeps,
  open: Open,
  { reconcile, running, unwell }: { reconcile: ReconcileDeps; running: InventoryDeps['running']; unwell: HealthLoop['unwell'] },
): InventoryLoop {
  const { kube, clock, log, lifecycle, agentId, broker, keys, settings } = deps
  const namespaces = () => namespacesOf(reconcile.settings.policy)
  const children = new Children({ kube, clock, log, namespaces, onChange: () => inventory.touchOwners() })
  const inventory = inventoryLoop({
    clock,
    running,
    children,
    unwell,
    send: async (body, signal) => {
      await broker.post(`/api/v1/agents/${agentId}/inventory`, { authorization: `Bearer ${keys.current}`, body, signal })
    },
    everyMs: () => settings.view.agent.inventory_interval * 1000,
  })
  lifecycle.onClose('children', () => children.stop())
  open(inventory)
  return inventory
}

/** What ended must be told soon; what is left when we stop, once more. */
export function openStatus({ clock, lifecycle }: WorkDeps, start: Open, status: StatusLoop, outbox: Outbox, onNews: () => void): void {
  const running = start(status)
  let timer: { cancel(): void } | null = null
  outbox.onNews((isUrgent) => {
    if (!isUrgent) return running.retime()
    onNews()
    timer ??= clock.setTimer(status.pauseMs(), () => {
      timer = null
      running.wake()
    })
  })
  lifecycle.onClose('status', async () => {
    timer?.cancel()
    await running.stop()
    if (!outbox.isEmpty) await status.run(AbortSignal.timeout(lastWordsMs))
  })
}

const lastWordsMs = 3_000
