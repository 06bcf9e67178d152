// Parts of a diagnostic result within their limits: three JSON texts, measured as escaped inside the request body. Pure.
import { type Fields, type KubeObject, rowsAt, textAt, valueAt } from '@brokkr/kube'

export const limits = { statuses: 256 * 1024, events: 256 * 1024, eventsPerNamespace: 50, tail: 64 * 1024, tails: 960 * 1024 } as const
const cutMark = '…[cut]'

/** Size in the body of the request. */
export const jsonBytesOf = (text: string): number => Buffer.byteLength(JSON.stringify(text))

/** Cuts to at most `bytesMax` in the request and marks the cut. Logs keep their end. */
export function cutText(text: string, bytesMax: number, keep: 'start' | 'end' = 'start'): string {
  if (text.length < bytesMax && jsonBytesOf(text) <= bytesMax) return text
  // A character takes at least one byte, so longer texts cannot fit.
  let [low, high] = [0, Math.min(text.length, bytesMax)]
  const cutTo = (chars: number) =>
    (keep === 'start' ? text.slice(0, chars) : chars === 0 ? '' : text.slice(-chars)).toWellFormed() + cutMark
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (jsonBytesOf(cutTo(middle)) <= bytesMax) low = middle
    else high = middle - 1
  }
  return cutTo(low)
}

/** JSON of as many rows as fit, from the first. */
export function fitRows(rows: readonly unknown[], bytesMax: number): string {
  for (let count = rows.length; count > 0; count = Math.floor(count * 0.8)) {
    const text = JSON.stringify(rows.slice(0, count))
    if (jsonBytesOf(text) <= bytesMax) return text
  }
  return '[]'
}

/** Complete entries while they fit; the others are cut to equal shares. */
export function fitTails(tails: ReadonlyMap<string, string>, bytesMax: number): string {
  // Escaped twice in the request, so half of the space is always enough.
  const share = Math.floor(bytesMax / 2 / Math.max(1, tails.size)) - tailOverhead
  const total = [...tails.values()].reduce((sum, tail) => sum + Math.min(tail.length, limits.tail), 0)
  const first = total > bytesMax ? Math.min(limits.tail, Math.max(65, share)) : limits.tail
  for (let each: number = first; each > 64; each = each > share ? Math.max(65, share) : Math.floor(each / 2)) {
    const text = JSON.stringify(Object.fromEntries([...tails].map(([name, tail]) => [name, cutText(tail, each, 'end')])))
    if (jsonBytesOf(text) <= bytesMax) return text
    if (each === 65) break
  }
  return '{}'
}

const tailOverhead = 256

const messageCharsMax = 1_024
const short = (text: string | undefined): string | null => (text === undefined ? null : text.slice(0, messageCharsMax))

/** Status of a pod without its specification, and so without environment variables. */
export const toPodStatus = (pod: KubeObject) => ({
  name: pod.metadata.name,
  namespace: pod.metadata.namespace ?? '',
  phase: textAt(pod, 'status', 'phase') ?? 'Unknown',
  conditions: rowsAt(pod, 'status', 'conditions').map((condition) => ({
    condition_type: textAt(condition, 'type') ?? '',
    status: textAt(condition, 'status') ?? '',
    reason: short(textAt(condition, 'reason')),
    message: short(textAt(condition, 'message')),
  })),
  containers: rowsAt(pod, 'status', 'containerStatuses').map(toContainerStatus),
})

function toContainerStatus(container: Fields) {
  const state = valueAt(container, 'state')
  const name = typeof state === 'object' && state !== null ? (Object.keys(state)[0] ?? null) : null
  return {
    name: textAt(container, 'name') ?? '',
    ready: container['ready'] === true,
    restart_count: Number(container['restartCount'] ?? 0),
    state: name,
    state_reason: short(name === null ? undefined : textAt(state, name, 'reason')),
    state_message: short(name === null ? undefined : textAt(state, name, 'message')),
  }
}

export const toEventRow = (event: KubeObject) => ({
  event_type: textAt(event, 'type') ?? 'Normal',
  reason: textAt(event, 'reason') ?? '',
  message: short(textAt(event, 'message')) ?? '',
  involved_object: textAt(event, 'involvedObject', 'name') ?? '',
  involved_object_kind: textAt(event, 'involvedObject', 'kind') ?? '',
  first_timestamp: textAt(event, 'firstTimestamp') ?? textAt(event, 'eventTime') ?? null,
  last_timestamp: textAt(event, 'lastTimestamp') ?? textAt(event, 'eventTime') ?? null,
  count: Number(event['count'] ?? 1),
})
