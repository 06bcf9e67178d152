// Results of a plan, grouped over clusters: the same change of the same object on many clusters is one group. Pure.
import type { PlanChange, PlanResult } from '@brokkr/contract/plans/plan.ts'

export interface PlanGroup {
  readonly key: string
  readonly change: PlanChange['change']
  readonly kind: string
  readonly name: string
  readonly namespace: string | null
  readonly clusters: readonly string[]
  readonly fields: PlanChange['fields']
  readonly guard: string | null
  readonly message: string | null
  /** The object holds data that is lost with it. */
  readonly holdsData: boolean
}
export interface GroupedPlan {
  readonly answered: number
  readonly waiting: number
  /** Agents that did not answer or refused, with their reason: never counted as unchanged. */
  readonly missing: readonly { readonly agent: string; readonly state: string; readonly reason: string | null }[]
  /** Agents whose changes were left out of the answer. */
  readonly incomplete: readonly string[]
  readonly changes: number
  readonly groups: readonly PlanGroup[]
}

const order: readonly PlanChange['change'][] = ['denied', 'delete', 'update', 'create', 'unchecked']
const dataKinds: ReadonlySet<string> = new Set([
  'PersistentVolumeClaim',
  'PersistentVolume',
  'StatefulSet',
  'Namespace',
  'CustomResourceDefinition',
])

export function groupPlan(results: readonly PlanResult[]): GroupedPlan {
  const groups = new Map<string, PlanGroup & { clusters: string[] }>()
  for (const { agent_name, changes } of results)
    for (const change of changes) {
      const key = [
        change.change,
        change.group,
        change.kind,
        change.namespace ?? '',
        change.name,
        change.guard ?? '',
        change.message ?? '',
      ].join('\n')
      const group = groups.get(key)
      if (group !== undefined) group.clusters.push(agent_name)
      else
        groups.set(key, {
          ...change,
          key,
          clusters: [agent_name],
          holdsData: change.change === 'delete' && dataKinds.has(change.kind),
        })
    }
  const count = (state: PlanResult['state']) => results.filter((result) => result.state === state).length
  return {
    answered: count('answered'),
    waiting: count('waiting'),
    missing: results
      .filter(({ state }) => state === 'silent' || state === 'refused')
      .map(({ agent_name, state, reason }) => ({ agent: agent_name, state, reason })),
    incomplete: results.filter(({ has_more }) => has_more).map(({ agent_name }) => agent_name),
    changes: results.reduce(
      (sum, { summary }) =>
        sum + (summary === null ? 0 : summary.create + summary.update + summary.delete + summary.denied + summary.unchecked),
      0,
    ),
    groups: [...groups.values()].toSorted(
      (a, b) =>
        order.indexOf(a.change) - order.indexOf(b.change) ||
        Number(b.holdsData) - Number(a.holdsData) ||
        a.kind.localeCompare(b.kind) ||
        a.name.localeCompare(b.name),
    ),
  }
}
