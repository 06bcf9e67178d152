// A flow's state and figures in words. Figures that were not observed are absent, never 0. Pure.
import type { Flow } from '@brokkr/contract/flows/flow.ts'
import type { State } from '../parts/icon.tsx'

export function flowState({ state, stale, report }: Pick<Flow, 'state' | 'stale' | 'report'>): State {
  if (stale) return 'stale'
  if (report?.paused === true || state === 'stopped') return 'held'
  if (state === 'error' || state === 'blocked') return 'failing'
  if (state === 'pending') return 'progressing'
  if (state === 'unknown') return 'unknown'
  return (report?.lag?.seconds ?? 0) > lagSeconds ? 'behind' : 'current'
}

/** A lag above it is shown as behind. */
const lagSeconds = 30

export function describeFlow(flow: Pick<Flow, 'state' | 'stale' | 'report'>): string {
  if (flow.stale) return `${flow.state}, figures are old`
  if (flow.report?.paused === true) return 'paused'
  const lag = formatLag(flow.report)
  return flowState(flow) === 'behind' && lag !== null ? `lags ${lag}` : flow.state
}

const count = (value: number): string => Math.round(value).toLocaleString('en')

export const formatRate = (report: Flow['report']): string | null =>
  report?.per_second === undefined ? null : `${report.per_second < 10 ? report.per_second.toFixed(1) : count(report.per_second)} /s`

export function formatLag(report: Flow['report']): string | null {
  const lag = report?.lag
  if (lag?.seconds !== undefined) return lag.seconds < 120 ? `${Math.round(lag.seconds)} s` : `${Math.round(lag.seconds / 60)} min`
  if (lag?.messages !== undefined) return `${count(lag.messages)} messages`
  return lag?.bytes === undefined ? null : `${count(lag.bytes)} bytes`
}

export const formatCount = (value: number | undefined): string | null => (value === undefined ? null : count(value))
