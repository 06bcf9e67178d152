// What was followed before the start, and its keeping from now on: the state file where there is one, else what the cluster keeps
// of the stacks.
import { join } from 'node:path'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { mapOf, mapOfKept, savedMap } from './follow/saved-map.ts'
import type { WantedMap } from './follow/wanted-map.ts'
import type { Keys } from './keys.ts'
import { type StateSaver, startStateSaver } from './loops/state-saver.ts'
import type { OwnRecord } from './own-record.ts'
import type { Outbox } from './reconcile/outbox.ts'
import type { StackParents } from './reconcile/stack-parents.ts'
import { readState } from './state-file.ts'

export interface OpenMapDeps {
  readonly clock: Clock
  readonly log: Log
  readonly keys: Keys
  readonly agentId: string
  readonly own: OwnRecord
  readonly outbox: Outbox
  /** Every stack of ours, as its parent keeps it. */
  readonly stacks: () => ReturnType<StackParents['all']>
}

export async function openMap(deps: OpenMapDeps, stateDir: string | null): Promise<WantedMap> {
  const saved = stateDir === null ? null : await readState(stateFile(stateDir), deps.keys.current)
  const isOurs = saved !== null && saved.agentId === deps.agentId
  for (const event of isOurs ? saved.events : []) deps.outbox.event(event)
  const map = isOurs ? mapOf(saved) : null
  if (map !== null) return map
  if (stateDir !== null) deps.log.info('no state of an earlier run is used; the broker is asked for a complete list')
  const kept = (await deps.stacks()).flatMap(({ stackId, parent: { state, set } }) =>
    state === null ? [] : [{ stackId, ...keptOf(state), manifest: set.data['manifest.yaml.gz'] ?? null }],
  )
  const { epoch = null, boot = null } = deps.own.facts ?? {}
  return Object.assign(mapOfKept(kept), { epoch, boot })
}

const keptOf = (state: { rev: number; sequence_id: number; deployment_object_id: string; drift: string; checksum: string }) => ({
  rev: state.rev,
  sequenceId: state.sequence_id,
  objectId: state.deployment_object_id,
  drift: state.drift,
  checksum: state.checksum,
})

const stateFile = (dir: string): string => join(dir, 'agent-state')

export function openSaver(deps: Omit<OpenMapDeps, 'own' | 'stacks'>, map: WantedMap, stateDir: string | null): StateSaver {
  if (stateDir === null) return { changed: () => undefined, stop: () => Promise.resolve() }
  const { clock, log, keys, agentId, outbox } = deps
  const state = () => ({ version: 1 as const, agentId, ...savedMap(map), events: outbox.allEvents() })
  return startStateSaver({ clock, log, path: stateFile(stateDir), pak: () => keys.current, state })
}
