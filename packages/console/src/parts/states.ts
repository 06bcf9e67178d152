// How reported values become states of the design. Pure; a value that is stale or unknown never counts as healthy.
import type { ListedFleetAgent } from '@brokkr/contract/agents/fleet.ts'
import type { AgentStackStatus, StackSummary } from '@brokkr/contract/stacks/stack.ts'
import type { State } from './icon.tsx'

const order: readonly State[] = ['failing', 'degraded', 'behind', 'stale', 'unknown', 'held', 'progressing', 'current', 'wait']

export const worstOf = (states: readonly State[]): State => order.find((state) => states.includes(state)) ?? 'unknown'

/** The agent counts as silent after this time without a report; the broker uses the same limit. */
const silentSeconds = 90

export function clusterState(agent: ListedFleetAgent): State {
  if (agent.connection_state === 'never' || agent.last_heartbeat === null) return 'unknown'
  if (
    agent.connection_state === 'disconnected' ||
    (agent.connection_state === undefined && (agent.heartbeat_age_seconds ?? 0) > silentSeconds)
  )
    return 'stale'
  if (agent.health_failing > 0) return 'failing'
  if (agent.health_degraded > 0) return 'degraded'
  return agent.pending_object_count > 0 ? 'behind' : 'current'
}

export function describeCluster(agent: ListedFleetAgent, state: State = clusterState(agent)): string {
  const plural = (count: number, word: string) => `${count} ${word}${count === 1 ? '' : 's'}`
  if (state === 'unknown') return 'never seen'
  if (state === 'stale') return 'silent'
  if (state === 'failing') return `${plural(agent.health_failing, 'stack')} failing`
  if (state === 'degraded') return `${plural(agent.health_degraded, 'stack')} degraded`
  if (state === 'behind') return `${plural(agent.pending_object_count, 'object')} pending`
  return 'current'
}

export function stackState(status: StackSummary | undefined): State {
  if (status === undefined) return 'unknown'
  if (status.health === 'failing' || status.agents_failed > 0) return 'failing'
  if (status.health === 'degraded') return 'degraded'
  if (status.held) return 'held'
  if (status.agents_total === 0) return 'wait'
  if (status.agents_current < status.agents_total) return 'progressing'
  return status.health === 'healthy' ? 'current' : 'unknown'
}

export function describeStack(status: StackSummary | undefined): string {
  const state = stackState(status)
  if (status === undefined) return 'unknown'
  if (state === 'failing') return status.agents_failed > 0 ? `failing on ${status.agents_failed} of ${status.agents_total}` : 'failing'
  if (state === 'wait') return 'no cluster'
  if (state === 'progressing') return `${status.agents_current} of ${status.agents_total} current`
  if (state === 'current') return 'healthy'
  if (state === 'unknown') return 'no health report'
  return state
}

/** A stack on one cluster. */
export function unitState(unit: AgentStackStatus): State {
  if (unit.phase === null) return unit.stale ? 'unknown' : 'wait'
  if (unit.stale) return 'stale'
  if (unit.phase === 'failed') return 'failing'
  if (unit.phase === 'held') return 'held'
  if (unit.sequence_id !== unit.desired_sequence_id || unit.phase === 'pending') return 'progressing'
  if (unit.health === 'failing' || unit.health === 'degraded') return unit.health
  return 'current'
}

export function describeUnit(unit: AgentStackStatus): string {
  const state = unitState(unit)
  if (state === 'wait' || state === 'unknown') return 'no report yet'
  if (state === 'stale') return 'silent'
  if (state === 'failing' && unit.phase === 'failed') return unit.message ?? unit.code ?? 'not applied'
  if (state === 'held') return unit.message ?? unit.code ?? 'held'
  if (state === 'progressing') return unit.sequence_id === null ? 'pending' : `at ${unit.sequence_id}, ${unit.desired_sequence_id} desired`
  if (state === 'current') return unit.health === 'healthy' ? 'healthy' : 'applied'
  return state
}

export const healthState = (health: string): State =>
  health === 'healthy' ? 'current' : health === 'degraded' || health === 'failing' ? health : 'unknown'
