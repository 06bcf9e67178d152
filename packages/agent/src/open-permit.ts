// Whether this process may write, put together from whoever has a say: the Lease, the broker's answers, and what it calls us.
import type { Election } from '@brokkr/kube/lease.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Standing } from './loops/standing.ts'
import type { AgentMetrics } from './metrics.ts'
import { Vouch } from './vouch.ts'
import { WritePermit } from './write-permit.ts'

export interface PermitDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly standing: Standing
  readonly election: Election
}
export interface OpenPermit {
  readonly vouch: Vouch
  readonly permit: WritePermit
  /** Called whenever we may write again, or may not any more. */
  readonly onPermit: (listener: () => void) => void
  /** The broker calls us something else. */
  readonly onStatus: (listener: (status: string) => void) => void
}

export function openPermit(
  { clock, log, metrics, standing, election }: PermitDeps,
  settings: { readonly frozenAfterMs: () => number; readonly isObserver: boolean },
): OpenPermit {
  const vouch = new Vouch({ clock, log }, settings)
  const permit = new WritePermit(() => ({
    isHolder: election.held(),
    isFrozen: vouch.isFrozen,
    isOutdated: vouch.isOutdated,
    isObserver: settings.isObserver,
    status: standing.status,
  }))
  const listeners = new Set<() => void>()
  const named = new Set<(status: string) => void>()
  const changed = () => {
    metrics.frozen.set(vouch.isFrozen ? 1 : 0)
    metrics.holder.set(election.held() ? 1 : 0)
    for (const listener of listeners) listener()
  }
  standing.watch({ isHolder: () => election.held(), isFrozen: () => vouch.isFrozen })
  vouch.onChange(changed)
  election.onChange(changed)
  standing.onStatus(() => {
    log.info('the broker calls us something else', { status: standing.status })
    changed()
    for (const listener of named) listener(standing.status)
  })
  changed()
  return { vouch, permit, onPermit: (listener) => void listeners.add(listener), onStatus: (listener) => void named.add(listener) }
}
