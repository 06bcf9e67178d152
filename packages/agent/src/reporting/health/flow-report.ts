// The figures of a flow's status that are reported with its health, and the fit of a summary into the size that the broker accepts. Pure.
import type { FlowReport } from '@brokkr/contract/flows/flow-report.ts'
import { type HealthSummary, healthSummaryBytesMax } from '@brokkr/contract/health/deployment-health.ts'
import { fieldsAt, flagAt, groupKindText, type KubeObject, numberAt, rowsAt, textAt } from '@brokkr/kube'

const flowBytesMax = 4 * 1024
const textCharsMax = 500
const conditionsMax = 16

export const isFlow = (kind: { readonly group: string; readonly kind: string }): boolean =>
  /^DataFlow(Cron)?\.dataflow\.dataflow\.io$/.test(groupKindText(kind))

/** An empty report until the operator has written a status. */
export function toFlowReport({ status }: KubeObject): FlowReport {
  const cut = (...path: string[]): string | undefined => textAt(status, ...path)?.slice(0, textCharsMax)
  const message = cut('message')
  const report: FlowReport = {
    phase: cut('phase'),
    message,
    read: numberAt(status, 'readCount'),
    processed: numberAt(status, 'processedCount'),
    written: numberAt(status, 'writtenCount'),
    dropped: numberAt(status, 'droppedCount'),
    errors: numberAt(status, 'errorCount'),
    per_second: numberAt(status, 'processedPerSecond'),
    lag: toLag(status),
    blocked: toBlocked(status),
    position: cut('position'),
    counters_since: cut('countersSince'),
    last_processed_at: cut('lastProcessedTime'),
    observed_at: cut('progress', 'observedAt'),
    stale: flagAt(status, 'progress', 'stale') ? true : undefined,
    paused: message?.startsWith('paused by hand') === true ? true : undefined,
    conditions: toConditions(status),
  }
  return shorten(report).find((candidate) => bytesOf(candidate) <= flowBytesMax) ?? {}
}

function toLag(status: unknown): FlowReport['lag'] {
  if (fieldsAt(status, 'lag') === undefined) return undefined
  const part = (key: string) => numberAt(status, 'lag', key)
  return { messages: part('messages'), seconds: part('seconds'), bytes: part('bytes') }
}

function toBlocked(status: unknown): FlowReport['blocked'] {
  if (fieldsAt(status, 'blocked') === undefined) return undefined
  const part = (key: string) => textAt(status, 'blocked', key)
  return {
    since: part('since')?.slice(0, textCharsMax),
    stage: part('stage')?.slice(0, textCharsMax),
    connector: part('connector')?.slice(0, textCharsMax),
    errorType: part('errorType')?.slice(0, textCharsMax),
    message: part('message')?.slice(0, textCharsMax),
    // Whole or absent: `skip` needs the exact text.
    position: exactText(part('position')),
  }
}

const positionCharsMax = 1_024
const exactText = (text: string | undefined): string | undefined =>
  text === undefined || text.length > positionCharsMax ? undefined : text

function toConditions(status: unknown): FlowReport['conditions'] {
  const rows = rowsAt(status, 'conditions').slice(0, conditionsMax)
  if (rows.length === 0) return undefined
  const cut = (row: unknown, key: string): string => (textAt(row, key) ?? '').slice(0, textCharsMax)
  return rows.map((row) => ({
    type: cut(row, 'type'),
    status: cut(row, 'status'),
    reason: cut(row, 'reason'),
    message: cut(row, 'message'),
  }))
}

/** From complete to the counts alone. The state of the flow is never left out. */
function shorten(report: FlowReport): FlowReport[] {
  const conditions = report.conditions?.map(({ type, status, reason }) => ({ type, status, reason }))
  const { conditions: _conditions, ...plain } = report
  const { position: _position, message: _message, ...short } = plain
  const { blocked, ...counts } = short
  return [
    report,
    { ...report, conditions },
    plain,
    short,
    blocked === undefined ? counts : { ...counts, blocked: { stage: blocked.stage } },
  ]
}

const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value))

/** Drops details of flows first, then cuts messages, then the list. */
export function fitSummary(summary: HealthSummary): HealthSummary {
  if (bytesOf(summary) <= healthSummaryBytesMax) return summary
  const resources = summary.resources ?? []
  const shortened = [2, 4].map((level) =>
    resources.map((row) => (row.flow === undefined ? row : { ...row, flow: shorten(row.flow)[level] })),
  )
  const cut = (shortened.at(-1) ?? []).map((row) => ({ ...row, message: row.message?.slice(0, 100) }))
  const fitting = [...shortened, cut].find((rows) => bytesOf({ ...summary, resources: rows }) <= healthSummaryBytesMax)
  return fitting === undefined ? { ...summary, resources: cut.slice(0, 50), truncated: true } : { ...summary, resources: fitting }
}
