// Maintenance windows of a flow: whether it is inside one, and the next edge. Pure. Windows are computed in the wall clock of their zone, so
// that they keep their local hour across a clock change.
import { instantOfLocal, parseZone, type Zone } from '@brokkr/contract/dataflow/language/zone.ts'
import type { Flow } from '@brokkr/contract/dataflow/spec/types.ts'

export interface MaintenanceState {
  readonly isSuspended: boolean
  /** End of the current window. */
  readonly untilMs: number | undefined
  /** Begin of the next window. */
  readonly nextMs: number | undefined
  /** Begin of the current or last window. */
  readonly lastMs: number | undefined
}

export const noMaintenance: MaintenanceState = { isSuspended: false, untilMs: undefined, nextMs: undefined, lastMs: undefined }

export function readMaintenance(maintenance: Flow['maintenance'], nowMs: number): MaintenanceState {
  if (maintenance === undefined) return noMaintenance
  const { startTime, durationMs, repeat, timezone, suspended } = maintenance
  const zone = parseZone(timezone)
  if (startTime === undefined || durationMs === undefined || zone === undefined) return { ...noMaintenance, isSuspended: suspended }
  const firstMs = Date.parse(startTime)
  if (repeat === undefined)
    return toState({ lastMs: firstMs <= nowMs ? firstMs : undefined, nextMs: firstMs > nowMs ? firstMs : undefined })
  const { lastMs, nextMs } = findNeighbours(zone, firstMs, repeat, nowMs)
  return toState({ lastMs, nextMs })

  function toState(found: { lastMs: number | undefined; nextMs: number | undefined }): MaintenanceState {
    const endMs = found.lastMs === undefined ? undefined : found.lastMs + durationMs!
    return { isSuspended: suspended, untilMs: endMs !== undefined && nowMs < endMs ? endMs : undefined, ...found }
  }
}

type Repeat = 'daily' | 'weekly' | 'monthly'
const daySeconds = 86_400

/** The begins around `nowMs`; none is before the first. */
function findNeighbours(zone: Zone, firstMs: number, repeat: Repeat, nowMs: number): { lastMs: number | undefined; nextMs: number } {
  const first = toLocal(zone, firstMs)
  const begin = (index: number): number => Math.max(firstMs, instantOfLocal(zone, localBegin(first, repeat, index)) * 1000)
  let index = Math.max(0, Math.floor((toLocal(zone, nowMs) - first) / (longestDays[repeat] * daySeconds)) - 1)
  while (begin(index) <= nowMs) index += 1
  return { lastMs: index === 0 ? undefined : begin(index - 1), nextMs: begin(index) }
}

/** An estimate that never overshoots. */
const longestDays = { daily: 1, weekly: 7, monthly: 31 } as const

const toLocal = (zone: Zone, ms: number): number => Math.floor(ms / 1000) + zone.offsetAt(Math.floor(ms / 1000))

function localBegin(first: number, repeat: Repeat, index: number): number {
  if (repeat !== 'monthly') return first + index * longestDays[repeat] * daySeconds
  const date = new Date(first * 1000)
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth() + index]
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate()
  return Date.UTC(year, month, Math.min(date.getUTCDate(), lastDay)) / 1000 + (first % daySeconds)
}
