// Rules of telemetry: which items an agent may send, how long their texts may be, and what a reader learns about retention. Pure.
import type { K8sEvent, LogGap, NewK8sEvent, PodLogLine } from '@brokkr/contract/telemetry/telemetry.ts'

export type TelemetryItem =
  | { readonly is: 'k8s_event'; readonly body: K8sEvent }
  | { readonly is: 'pod_log_line'; readonly body: PodLogLine }
  | { readonly is: 'log_gap'; readonly body: LogGap }
/** As agents send it, over HTTP or a socket. */
export type NewTelemetryItem =
  | { readonly is: 'k8s_event'; readonly body: NewK8sEvent }
  | { readonly is: 'pod_log_line'; readonly body: PodLogLine }
  | { readonly is: 'log_gap'; readonly body: LogGap }

/** Longer log lines and messages are cut. */
export const lineBytesMax = 16 * 1024
/** Longest name of a Kubernetes object; items with longer names are refused. */
const nameCharsMax = 253
const retentionSecondsMax = 21_600

/** The item in its stored form; null if the agent must not send it or a field has no valid value. */
export function acceptItem(agentId: string, { is, body }: NewTelemetryItem): TelemetryItem | null {
  if (body.agent_id !== agentId) return null
  if (is === 'k8s_event') return acceptEvent(body)
  if (is === 'pod_log_line') return acceptLine(body)
  const since_ts = toWireTime(body.since_ts)
  return since_ts === null ? null : { is, body: { ...pickGap(body), since_ts } }
}

function acceptEvent(event: NewK8sEvent): TelemetryItem | null {
  const { agent_id, stack_id, reason, event_type } = event
  const { api_version, kind, name } = event.involved_object
  const namespace = event.involved_object.namespace ?? null
  const uid = event.involved_object.uid ?? null
  const source = event.source ?? null
  const observed_at = toWireTime(event.observed_at)
  if (observed_at === null || ![reason, event_type, source, api_version, kind, name, namespace, uid].every(isName)) return null
  const involved_object = { api_version, kind, namespace, name, uid }
  const message = cutText(event.message)
  return { is: 'k8s_event', body: { agent_id, stack_id, observed_at, reason, message, event_type, source, involved_object } }
}

function acceptLine({ agent_id, stack_id, namespace, pod, container, ts, line }: PodLogLine): TelemetryItem | null {
  const time = toWireTime(ts)
  if (time === null || ![namespace, pod, container].every(isName)) return null
  return { is: 'pod_log_line', body: { agent_id, stack_id, namespace, pod, container, ts: time, line: cutText(line) } }
}

const pickGap = ({ agent_id, stack_id, since_ts, dropped_count, reason }: LogGap): LogGap => ({
  agent_id,
  stack_id,
  since_ts,
  dropped_count,
  reason,
})

const isName = (text: string | null): boolean =>
  text === null || (text.length <= nameCharsMax && !text.includes('\0') && text.isWellFormed())

/** At most 16 KiB in UTF-8, without characters that a database text cannot hold. */
export function cutText(text: string): string {
  const clean = text.replaceAll('\0', '\uFFFD').toWellFormed()
  if (Buffer.byteLength(clean) <= lineBytesMax) return clean
  const room = lineBytesMax - Buffer.byteLength(cutMark)
  // A cut inside a character leaves a replacement character, which is dropped.
  return `${Buffer.from(clean)
    .subarray(0, room)
    .toString('utf8')
    .replace(/\uFFFD$/, '')}${cutMark}`
}
const cutMark = '…[cut]'

const timePattern = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)$/

/** RFC 3339 in UTC with six fraction digits; null if it names no time between 1970 and 9999. */
export function toWireTime(text: string): string | null {
  const [, date, time, fraction = '', zone = ''] = timePattern.exec(text) ?? []
  const ms = Date.parse(`${date}T${time}${zone.toUpperCase()}`)
  if (!(ms >= 0 && ms < latestMs)) return null
  return `${new Date(ms).toISOString().slice(0, 19)}.${fraction.slice(0, 6).padEnd(6, '0')}Z`
}
const latestMs = Date.UTC(9999, 11, 31)

/** `rows`: newest first. */
export const toRetentionInfo = (retentionSeconds: number, rows: readonly { readonly created_at: string }[]) => ({
  retention_ceiling_seconds: retentionSecondsMax,
  effective_retention_seconds: Math.floor(retentionSeconds),
  oldest_available_ts: rows.at(-1)?.created_at ?? null,
  long_term_sink_hint:
    'The broker stores telemetry for at most 6 hours. For long-term storage, ship logs to Datadog, Loki, OpenSearch or a similar system.',
})
