// Whether the public pipeline controller still acts: it holds its Lease in our namespace. Two controllers with different records would
// promote twice, so ours observes and does not act until the other one has ended.
import { createRecorder, type Kube, textAt, valueAt } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import { startLoop } from '@brokkr/runtime/loop.ts'
import type { Leadership } from './leadership.ts'

const LEASE = { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', name: 'pipeline-controller-leader-election' }
const EVERY_MS = 5_000
const MESSAGE = 'the public pipeline controller holds its Lease: this controller observes and does not act'

export interface PublicLease {
  /** True until the first read. */
  readonly isHeld: boolean
  /** For readiness; null: the other controller does not act. */
  readonly problem: string | null
  onChange(listener: () => void): void
  stop(): Promise<void>
}

export function watchPublicLease(deps: { kube: Kube; clock: Clock; log: Log }, namespace: string): PublicLease {
  const { kube, clock, log } = deps
  const recorder = createRecorder(deps, { component: 'brokkr-pipelines' })
  const listeners: (() => void)[] = []
  let isHeld = true
  let isRead = false
  const loop = startLoop(
    deps,
    {
      name: 'public-lease',
      everyMs: EVERY_MS,
      run: async (signal) => {
        const lease = await kube.find({ ...LEASE, namespace }, { signal })
        const isNowHeld = lease !== undefined && isFresh(lease.spec, clock.now())
        if (isNowHeld && (!isHeld || !isRead)) {
          log.warn('public controller active', { namespace })
          recorder.record(
            { ...LEASE, namespace, uid: lease.metadata.uid ?? '' },
            { type: 'Warning', reason: 'PublicControllerActive', message: MESSAGE },
          )
        }
        const hasChanged = isNowHeld !== isHeld || !isRead
        isHeld = isNowHeld
        isRead = true
        if (hasChanged) for (const listener of listeners) listener()
      },
    },
    { immediately: true },
  )
  return {
    get isHeld() {
      return isHeld
    },
    get problem() {
      return isHeld && isRead ? MESSAGE : null
    },
    onChange: (listener) => void listeners.push(listener),
    stop: async () => {
      await loop.stop()
      await recorder.flush()
    },
  }
}

function isFresh(spec: unknown, nowMs: number): boolean {
  const renewedMs = Date.parse(textAt(spec, 'renewTime') ?? '')
  const seconds = Number(valueAt(spec, 'leaseDurationSeconds') ?? 0)
  return (textAt(spec, 'holderIdentity') ?? '') !== '' && nowMs < renewedMs + seconds * 1000
}

/** Leads only while the public controller does not. */
export const withoutPublicController = (leadership: Leadership, lease: PublicLease): Leadership => ({
  holder: leadership.holder,
  get isLeader() {
    return leadership.isLeader && !lease.isHeld
  },
  get epoch() {
    return leadership.epoch
  },
  get leaseUid() {
    return leadership.leaseUid
  },
  assertLeader() {
    if (lease.isHeld) throw new Error(MESSAGE)
    leadership.assertLeader()
  },
})
