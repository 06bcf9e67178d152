// Loads the sync state of an earlier run from the state file or from the parents in the cluster, and creates its saver.
import { join } from 'node:path'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { AgentIdentityStore } from '../identity/agent-identity.ts'
import type { AgentPaks } from '../identity/paks.ts'
import type { StackParents } from '../reconcile/stack-parents.ts'
import type { Outbox } from '../reporting/outbox.ts'
import { restoreFromParents, restoreSyncState, toSavedState } from './saved-state.ts'
import { readState } from './state-file.ts'
import { type StateSaver, startStateSaver } from './state-saver.ts'
import type { SyncState } from './sync-state.ts'

export interface SyncStateDeps {
  readonly clock: Clock
  readonly log: Log
  readonly paks: AgentPaks
  readonly agentId: string
  readonly identity: AgentIdentityStore
  readonly outbox: Outbox
  /** Reads the parents of all stacks of this agent. */
  readonly readParents: () => ReturnType<StackParents['all']>
}

export async function loadSyncState(deps: SyncStateDeps, stateDir: string | null): Promise<SyncState> {
  const saved = stateDir === null ? null : await readState(stateFile(stateDir), deps.paks.current)
  const isOurs = saved !== null && saved.agentId === deps.agentId
  for (const event of isOurs ? saved.events : []) deps.outbox.event(event)
  const restored = isOurs ? restoreSyncState(saved) : null
  if (restored !== null) return restored
  if (stateDir !== null) deps.log.info('no saved state, snapshot requested')
  const stacks = (await deps.readParents()).flatMap(({ stackId, parent: { state, set } }) =>
    state === null ? [] : [{ stackId, ...toStoredState(state), manifest: set.data['manifest.yaml.gz'] ?? null }],
  )
  const { epoch = null, boot = null } = deps.identity.facts ?? {}
  return Object.assign(restoreFromParents(stacks), { epoch, boot })
}

const toStoredState = (state: { rev: number; sequence_id: number; deployment_object_id: string; drift: string; checksum: string }) => ({
  rev: state.rev,
  sequenceId: state.sequence_id,
  objectId: state.deployment_object_id,
  drift: state.drift,
  checksum: state.checksum,
})

const stateFile = (dir: string): string => join(dir, 'agent-state')

export function createStateSaver(
  deps: Omit<SyncStateDeps, 'identity' | 'readParents'>,
  restored: SyncState,
  stateDir: string | null,
): StateSaver {
  if (stateDir === null) return { changed: () => undefined, stop: () => Promise.resolve() }
  const { clock, log, paks, agentId, outbox } = deps
  const state = () => ({ version: 1 as const, agentId, ...toSavedState(restored), events: outbox.allEvents() })
  return startStateSaver({ clock, log, path: stateFile(stateDir), pak: () => paks.current, state })
}
