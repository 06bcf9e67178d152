// Rules on the flow as a whole: replicas, windows, routes, resources.
import { at } from '../connectors/shared.ts'
import { parseQuantity } from '../fields/duration.ts'
import { isMap } from '../fields/field.ts'
import type { Problem } from '../fields/problem.ts'
import type { FlowValues } from './flow-fields.ts'
import type { Route } from './route.ts'
import type { FlowKind } from './types.ts'

export function checkReplicas(replicas: number, kind: FlowKind, sourceType: string | undefined): Problem[] {
  if (replicas <= 1) return []
  if (kind === 'DataFlowCron') return [at('spec.replicas', 'V33', 'a scheduled flow runs with one replica')]
  const isAllowed = sourceType === undefined || sourceType === 'kafka'
  return isAllowed ? [] : [at('spec.replicas', 'V33', 'only kafka sources run with more than one replica')]
}

const dayMs = 86_400_000
/** Shortest period of a repetition: February for months. */
const periodMs = { daily: dayMs, weekly: 7 * dayMs, monthly: 28 * dayMs } as const

export function checkMaintenance(maintenance: FlowValues['maintenance']): Problem[] {
  if (maintenance === undefined) return []
  const { startTime, durationMs, repeat } = maintenance
  if ((startTime === undefined) !== (durationMs === undefined))
    return [at('spec.maintenance', 'V34', 'startTime and duration belong together')]
  const isLong = repeat !== undefined && durationMs !== undefined && durationMs >= periodMs[repeat]
  return isLong ? [at('spec.maintenance.duration', 'V34', 'is not shorter than its repeat period')] : []
}

/** Route names are metric labels, so they are unique over all routers. */
export function checkRouteNames(routes: readonly Route[], pathOf: (route: Route) => string): Problem[] {
  const countsByName = new Map<string, number>()
  return routes.flatMap((route, j) => {
    if (route.name === undefined) return []
    const i = countsByName.get(route.name)
    if (i === undefined) countsByName.set(route.name, j)
    return i === undefined ? [] : [at(`${pathOf(route)}.name`, 'V36', `"${route.name}" is used by routes ${i} and ${j}`)]
  })
}

export function checkResources(resources: FlowValues['resources'], path = 'spec.resources'): Problem[] {
  const requests = readAmounts(resources['requests'], `${path}.requests`)
  const limits = readAmounts(resources['limits'], `${path}.limits`)
  const excess = [...requests.amounts].filter(([name, amount]) => amount > (limits.amounts.get(name) ?? Number.POSITIVE_INFINITY))
  return [
    ...requests.problems,
    ...limits.problems,
    ...excess.map(([name]) => at(`${path}.requests.${name}`, 'V32', 'request exceeds limit')),
  ]
}

interface Amounts {
  readonly amounts: ReadonlyMap<string, number>
  readonly problems: readonly Problem[]
}

function readAmounts(map: unknown, path: string): Amounts {
  if (map === undefined || map === null) return { amounts: new Map(), problems: [] }
  if (!isMap(map))
    return { amounts: new Map(), problems: [at(path, 'V8', `must be a map, not a ${Array.isArray(map) ? 'list' : typeof map}`)] }
  const amounts = new Map<string, number>()
  const problems: Problem[] = []
  for (const [name, value] of Object.entries(map)) {
    const amount = typeof value === 'string' || typeof value === 'number' ? parseQuantity(String(value)) : undefined
    if (amount === undefined) problems.push(at(`${path}.${name}`, 'V10', `"${String(value)}" is not a quantity`))
    else if (amount < 0) problems.push(at(`${path}.${name}`, 'V32', 'must not be negative'))
    else amounts.set(name, amount)
  }
  return { amounts, problems }
}
