// Groups the answers of all agents to a plan: one group per object and kind of change, with the agents that would make it. Pure.
import type { PlanChange, PlanField, PlanResult } from '@brokkr/contract/plans/plan.ts'

/** One field with one pair of values; clusters with other values have a field of their own. */
export interface GroupedField {
  readonly path: string
  readonly before: string
  readonly after: string
  readonly agents: readonly string[]
}
export interface PlanGroup {
  readonly change: PlanChange['change']
  readonly kind: string
  /** With the namespace if there is one. */
  readonly name: string
  readonly agents: readonly string[]
  /** The most frequent first. */
  readonly fields: readonly GroupedField[]
  /** Why prune guards would hold the deletion; or why it is denied or unchecked. Distinct, the most frequent first. */
  readonly guards: readonly string[]
  readonly messages: readonly string[]
}
export interface FleetPlan {
  readonly answered: readonly string[]
  /** Agents without an answer. They never count as unchanged. */
  readonly silent: readonly string[]
  readonly refused: readonly string[]
  readonly groups: readonly PlanGroup[]
  /** What limits the answers, with the agent. */
  readonly notes: readonly string[]
}

const order: readonly PlanChange['change'][] = ['update', 'create', 'delete', 'denied', 'unchecked']

export function groupPlan(results: readonly PlanResult[]): FleetPlan {
  const names = nameAgents(results)
  const nameOf = (result: PlanResult) => names.get(result.agent_id)!
  const answers = results.filter(({ state }) => state === 'answered')
  const entries = answers.flatMap((result) => result.changes.map((change) => ({ agent: nameOf(result), change: relabelSecrets(change) })))
  const groups = Map.groupBy(entries, ({ change }) =>
    JSON.stringify([change.change, change.group, change.kind, change.namespace, change.name]),
  )
  return {
    answered: answers.map(nameOf),
    silent: results.filter(({ state }) => state === 'silent' || state === 'waiting').map(nameOf),
    refused: results.filter(({ state }) => state === 'refused').map(nameOf),
    groups: [...groups.values()].map(toGroup).toSorted(compareGroups),
    notes: results.flatMap((result) => describeLimits(result).map((text) => `${nameOf(result)}: ${text}`)),
  }
}

/** True also if an agent gave no answer, because its changes are unknown. */
export const mayChange = ({ groups, silent, refused }: FleetPlan): boolean => groups.length + silent.length + refused.length > 0

/** The cluster is added where several agents have the name. */
function nameAgents(results: readonly PlanResult[]): Map<string, string> {
  const equal = Map.groupBy(results, ({ agent_name }) => agent_name)
  return new Map(
    results.map(({ agent_id, agent_name, cluster_name }) => [
      agent_id,
      equal.get(agent_name)!.length > 1 ? `${agent_name}/${cluster_name}` : agent_name,
    ]),
  )
}

type Entry = { readonly agent: string; readonly change: PlanChange }

function toGroup(entries: readonly Entry[]): PlanGroup {
  const { change, kind, namespace, name } = entries[0]!.change
  return {
    change,
    kind,
    name: namespace === null ? name : `${namespace}/${name}`,
    agents: entries.map(({ agent }) => agent),
    fields: groupFields(entries),
    guards: distinct(entries.map((entry) => entry.change.guard)),
    messages: distinct(entries.map((entry) => entry.change.message)),
  }
}

function groupFields(entries: readonly Entry[]): GroupedField[] {
  const all = entries.flatMap(({ agent, change }) => change.fields.map((field) => ({ agent, ...toShown(field) })))
  return [...Map.groupBy(all, ({ path, before, after }) => JSON.stringify([path, before, after])).values()]
    .map((equal) => ({ path: equal[0]!.path, before: equal[0]!.before, after: equal[0]!.after, agents: equal.map(({ agent }) => agent) }))
    .toSorted((a, b) => b.agents.length - a.agents.length)
}

const toShown = ({ path, before, after }: PlanField) => ({ path, before: toText(before), after: toText(after) })
const toText = (value: unknown): string => (value === undefined ? '(none)' : typeof value === 'string' ? value : JSON.stringify(value))

function distinct(texts: readonly (string | null)[]): string[] {
  const equal = Map.groupBy(
    texts.filter((text) => text !== null),
    (text) => text,
  )
  return [...equal].toSorted(([, a], [, b]) => b.length - a.length).map(([text]) => text)
}

/** Every agent has its own key for fingerprints. Numbers in the order of appearance make equal changes equal in all clusters. */
function relabelSecrets(change: PlanChange): PlanChange {
  const known = new Map<string, string>()
  const relabel = (value: unknown): unknown =>
    typeof value !== 'string'
      ? value
      : value.replaceAll(/\*\*\*#[0-9a-f]{12}/g, (mark) => {
          if (!known.has(mark)) known.set(mark, `***#k${known.size + 1}`)
          return known.get(mark)!
        })
  return { ...change, fields: change.fields.map((field) => ({ ...field, before: relabel(field.before), after: relabel(field.after) })) }
}

const compareGroups = (a: PlanGroup, b: PlanGroup): number =>
  order.indexOf(a.change) - order.indexOf(b.change) || a.kind.localeCompare(b.kind) || a.name.localeCompare(b.name)

function describeLimits({ state, reason, summary, changes }: PlanResult): string[] {
  if (state === 'waiting') return ['no answer yet']
  if (state !== 'answered') return [`${state}${reason === null ? '' : `, ${reason}`}`]
  const total = summary === null ? 0 : summary.create + summary.update + summary.delete + summary.denied + summary.unchecked
  return [...(reason === null ? [] : [reason]), ...(total > changes.length ? [`${changes.length} of ${total} changes are listed`] : [])]
}
