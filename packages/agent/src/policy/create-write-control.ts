// Composition root of the write permit: combines the Lease, the credential status and the agent status.
import { type Election } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { AgentMetrics } from '../metrics.ts'
import type { AgentConditions } from '../reporting/agent-conditions.ts'
import { CredentialStatus } from './credential-status.ts'
import { WritePermit } from './write-permit.ts'

export interface PermitDeps {
  readonly clock: Clock
  readonly log: Log
  readonly metrics: AgentMetrics
  readonly conditions: AgentConditions
  readonly election: Election
}
export interface WriteControl {
  readonly credentialStatus: CredentialStatus
  readonly permit: WritePermit
  /** Called after every change of the permit. */
  readonly onPermit: (listener: () => void) => void
  /** Called after a change of the agent status. */
  readonly onStatus: (listener: (status: string) => void) => void
}

export function createWriteControl(
  { clock, log, metrics, conditions, election }: PermitDeps,
  settings: { readonly frozenAfterMs: () => number; readonly isObserver: boolean },
): WriteControl {
  const credentialStatus = new CredentialStatus({ clock, log }, settings)
  const permit = new WritePermit(() => ({
    isHolder: election.held(),
    isFrozen: credentialStatus.isFrozen,
    isOutdated: credentialStatus.isOutdated,
    isObserver: settings.isObserver,
    status: conditions.status,
  }))
  const listeners = new Set<() => void>()
  const statusListeners = new Set<(status: string) => void>()
  const changed = () => {
    metrics.frozen.set(credentialStatus.isFrozen ? 1 : 0)
    metrics.holder.set(election.held() ? 1 : 0)
    for (const listener of listeners) listener()
  }
  conditions.setWriteState({ isHolder: () => election.held(), isFrozen: () => credentialStatus.isFrozen })
  credentialStatus.onChange(changed)
  election.onChange(changed)
  conditions.onStatus(() => {
    log.info('agent status changed', { status: conditions.status })
    changed()
    for (const listener of statusListeners) listener(conditions.status)
  })
  changed()
  return {
    credentialStatus,
    permit,
    onPermit: (listener) => void listeners.add(listener),
    onStatus: (listener) => void statusListeners.add(listener),
  }
}
