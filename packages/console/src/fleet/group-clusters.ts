// Groups clusters of the heat strip by a label, by version or by state. Pure.
import type { ListedFleetAgent } from '@brokkr/contract/agents/fleet.ts'
import { clusterState, describeCluster } from '../parts/states.ts'

export type Grouping = 'env' | 'region' | 'version' | 'state'
export interface ClusterGroup {
  readonly name: string
  readonly clusters: readonly ListedFleetAgent[]
}

const labelKeys: Readonly<Record<'env' | 'region', readonly string[]>> = {
  env: ['env', 'environment', 'stage'],
  region: ['region', 'site', 'zone', 'location'],
}

export function groupClusters(agents: readonly ListedFleetAgent[], by: Grouping): ClusterGroup[] {
  const groups = Map.groupBy(agents, (agent) => groupName(agent, by))
  return [...groups]
    .map(([name, clusters]) => ({ name, clusters }))
    .toSorted((a, b) => b.clusters.length - a.clusters.length || (a.name < b.name ? -1 : 1))
}

function groupName(agent: ListedFleetAgent, by: Grouping): string {
  if (by === 'version') return agent.agent_version ?? 'unknown version'
  if (by === 'state') {
    const state = clusterState(agent)
    return state === 'current' || state === 'stale' || state === 'unknown' ? describeCluster(agent, state) : state
  }
  for (const key of labelKeys[by]) {
    const label = agent.labels?.find((text) => text.startsWith(`${key}:`) || text.startsWith(`${key}=`))
    if (label !== undefined) return label.slice(key.length + 1)
  }
  return by === 'env' ? 'no environment' : 'no region'
}
