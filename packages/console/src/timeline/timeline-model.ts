// Entries of the timeline as marks on lanes, and as sentences. Pure.
import type { TimelineEntry, TimelineStep } from '@brokkr/contract/timeline/timeline.ts'
import type { State } from '../parts/icon.tsx'
import { plainText } from '../parts/text.tsx'

export interface TimelineRange {
  readonly id: string
  readonly label: string
  readonly ms: number
  readonly step: TimelineStep
}
const hourMs = 3_600_000
export const ranges: readonly TimelineRange[] = [
  { id: '1h', label: '1 hour', ms: hourMs, step: 'minute' },
  { id: '24h', label: '24 hours', ms: 24 * hourMs, step: 'hour' },
  { id: '7d', label: '7 days', ms: 7 * 24 * hourMs, step: 'hour' },
  { id: '30d', label: '30 days', ms: 30 * 24 * hourMs, step: 'day' },
]

export const lanes = [
  { id: 'versions', label: 'Versions' },
  { id: 'applied', label: 'Clusters' },
  { id: 'drift', label: 'Drift' },
  { id: 'changes', label: 'Changes' },
] as const
export type LaneId = (typeof lanes)[number]['id']

export const laneOf = ({ kind, action }: Pick<TimelineEntry, 'kind' | 'action'>): LaneId =>
  kind === 'deployment' ? 'versions' : kind === 'change' ? 'changes' : action === 'DRIFT' ? 'drift' : 'applied'

export function entryState(entry: Pick<TimelineEntry, 'kind' | 'action' | 'status'>): State {
  if (entry.kind === 'agent') return entry.action === 'DRIFT' ? 'degraded' : entry.status === 'SUCCESS' ? 'current' : 'failing'
  if (/\.(held|paused)$/.test(entry.action)) return 'held'
  return /\.(deleted|revoked)$|failed|rejected|aborted/.test(entry.action) ? 'failing' : 'progressing'
}

const order: readonly State[] = ['failing', 'degraded', 'held', 'progressing', 'current']
const worst = (a: State, b: State): State => (order.indexOf(a) <= order.indexOf(b) ? a : b)

export interface Mark {
  readonly id: string
  readonly lane: LaneId
  /** Column from the left. */
  readonly column: number
  readonly records: number
  readonly state: State
  readonly entries: readonly TimelineEntry[]
}

/** Entries of one lane and column are one mark. Entries outside of the range have none. */
export function toMarks(entries: readonly TimelineEntry[], range: { fromMs: number; toMs: number; columns: number }): Mark[] {
  const marks = new Map<string, Mark>()
  for (const entry of entries) {
    const share = (Date.parse(entry.at) - range.fromMs) / (range.toMs - range.fromMs)
    if (share < 0 || share > 1) continue
    const column = Math.min(range.columns - 1, Math.floor(share * range.columns))
    const lane = laneOf(entry)
    const id = `${lane}-${column}`
    const mark = marks.get(id)
    const state = entryState(entry)
    marks.set(
      id,
      mark === undefined
        ? { id, lane, column, records: entry.records, state, entries: [entry] }
        : { ...mark, records: mark.records + entry.records, state: worst(mark.state, state), entries: [...mark.entries, entry] },
    )
  }
  return [...marks.values()]
}

/** One entry as a sentence without its actor and time. */
export function describeEntry(entry: TimelineEntry): string {
  const stack = plainText(entry.stack_name ?? 'a deleted stack', 80)
  const version = entry.sequence_id === null ? stack : `${stack} ${entry.sequence_id}`
  if (entry.kind === 'deployment') {
    const verb = entry.action === 'deployment.rolled_back' ? 'rolled back' : 'submitted'
    return `${version} ${verb}${entry.records > 1 ? ` and ${entry.records - 1} earlier` : ''}`
  }
  if (entry.kind === 'agent') {
    const where = entry.agents === 1 ? plainText(entry.agent_name ?? 'one cluster', 60) : `${entry.agents} clusters`
    if (entry.action === 'DRIFT') return `${version} drifted on ${where}`
    const verb = entry.status === 'SUCCESS' ? (entry.action === 'DEPLOY' ? 'applied' : entry.action.toLowerCase()) : 'failed'
    return `${version} ${verb} on ${where}`
  }
  const [noun = '', ...verbs] = entry.action.split('.')
  const name = entry.stack_id === null ? entry.resource_name : (entry.stack_name ?? entry.resource_name)
  const words = `${noun.replaceAll('_', ' ')}${name === null ? '' : ` ${plainText(name, 80)}`} ${verbs.join(' ').replaceAll('_', ' ')}`
  return `${words}${entry.records > 1 ? ` and ${entry.records - 1} more` : ''}`
}

/** Times of the axis, at most eight. */
export function toTicks(range: { fromMs: number; toMs: number }): number[] {
  const steps = [5, 10, 30, 60, 180, 360, 720, 1440, 2880, 7200].map((minutes) => minutes * 60_000)
  const step = steps.find((ms) => (range.toMs - range.fromMs) / ms <= 8) ?? steps.at(-1)!
  const first = Math.ceil(range.fromMs / step) * step
  return Array.from({ length: Math.max(0, Math.floor((range.toMs - first) / step) + 1) }, (_, index) => first + index * step)
}
