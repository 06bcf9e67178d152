// Revision and readiness of a Brokkr stack: its head as the broker stores it, and what its agents report. Pure.
import type { DeploymentObject } from '@brokkr/contract/deployments/deployment-object.ts'
import type { AgentStackStatus } from '@brokkr/contract/stacks/stack.ts'
import type { AppReading } from '../apps/adapter.ts'
import { MarkerError, readMarkers } from '../git/markers.ts'

export interface StackState {
  readonly head: Pick<DeploymentObject, 'sequence_id' | 'yaml_checksum' | 'yaml_content'>
  readonly agents: readonly Pick<AgentStackStatus, 'agent_name' | 'sequence_id' | 'desired_sequence_id' | 'phase' | 'health' | 'stale'>[]
}

/** `Copy`: the revision is the checksum. `Marker`: the marked value of this owner (`namespace:pipeline:environment`). */
export function readStack(state: StackState, from: { mode: 'Copy' | 'Marker'; owner: string }): AppReading {
  const { head, agents } = state
  const revision = from.mode === 'Copy' ? head.yaml_checksum : readMarkedRevision(head.yaml_content, from.owner)
  if (typeof revision !== 'string') return { revision: null, ready: false, error: revision.error }
  if (agents.length === 0) return { revision, ready: false, error: 'the stack has no target' }
  const isApplied = ({ sequence_id, desired_sequence_id, phase, health, stale }: StackState['agents'][number]) =>
    sequence_id === head.sequence_id && desired_sequence_id === head.sequence_id && phase === 'applied' && health === 'healthy' && !stale
  return { revision, ready: agents.every(isApplied), error: null }
}

function readMarkedRevision(manifest: string, owner: string): string | { error: string } {
  try {
    return readMarkers(Buffer.from(manifest), { path: 'manifest', owner }) ?? { error: `the manifest has no marker for ${owner}` }
  } catch (error) {
    if (error instanceof MarkerError) return { error: error.message }
    throw error
  }
}
