// Parts of a diagnostic result, made to fit: three JSON texts whose size is counted as they travel, inside another JSON text. Pure.
import { rowsAt, textAt, valueAt } from '@brokkr/kube/fields.ts'
import type { Fields, KubeObject } from '@brokkr/kube/object.ts'

export const limits = { statuses: 256 * 1024, events: 256 * 1024, eventsPerNamespace: 50, tail: 64 * 1024, tails: 960 * 1024 } as const
const cutMark = '…[cut]'

/** As it stands in the body of the request. */
export const sizeOf = (text: string): number => Buffer.byteLength(JSON.stringify(text))

/** At most so many bytes as it travels; what is cut says so. The end of a log tells more than its beginning. */
export function cutText(text: string, bytesMax: number, keep: 'start' | 'end' = 'start'): string {
  if (text.length < bytesMax && sizeOf(text) <= bytesMax) return text
  // No character takes less than a byte, so more of them cannot fit.
  let [low, high] = [0, Math.min(text.length, bytesMax)]
  const cutTo = (chars: number) =>
    (keep === 'start' ? text.slice(0, chars) : chars === 0 ? '' : text.slice(-chars)).toWellFormed() + cutMark
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (sizeOf(cutTo(middle)) <= bytesMax) low = middle
    else high = middle - 1
  }
  return cutTo(low)
}

/** The JSON of as many rows as fit, from the first on. */
export function fitRows(rows: readonly unknown[], bytesMax: number): string {
  for (let count = rows.length; count > 0; count = Math.floor(count * 0.8)) {
    const text = JSON.stringify(rows.slice(0, count))
    if (sizeOf(text) <= bytesMax) return text
  }
  return '[]'
}

/** Whole entries as long as they fit, the others cut to what is left for each. */
export function fitTails(tails: ReadonlyMap<string, string>, bytesMax: number): string {
  // Escaped once as part of its JSON and once more in the request: a share of half the room always fits.
  const share = Math.floor(bytesMax / 2 / Math.max(1, tails.size)) - tailOverhead
  const total = [...tails.values()].reduce((sum, tail) => sum + Math.min(tail.length, limits.tail), 0)
  const first = total > bytesMax ? Math.min(limits.tail, Math.max(65, share)) : limits.tail
  for (let each: number = first; each > 64; each = each > share ? Math.max(65, share) : Math.floor(each / 2)) {
    const text = JSON.stringify(Object.fromEntries([...tails].map(([name, tail]) => [name, cutText(tail, each, 'end')])))
    if (sizeOf(text) <= bytesMax) return text
    if (each === 65) break
  }
  return '{}'
}

const tailOverhead = 256

const messageCharsMax = 1_024
const short = (text: string | undefined): string | null => (text === undefined ? null : text.slice(0, messageCharsMax))

/** What a pod says of itself; nothing of its specification, and so no environment. */
export const podStatusOf = (pod: KubeObject) => ({
  name: pod.metadata.name,
  namespace: pod.metadata.namespace ?? '',
  phase: textAt(pod, 'status', 'phase') ?? 'Unknown',
  conditions: rowsAt(pod, 'status', 'conditions').map((condition) => ({
    condition_type: textAt(condition, 'type') ?? '',
    status: textAt(condition, 'status') ?? '',
    reason: short(textAt(condition, 'reason')),
    message: short(textAt(condition, 'message')),
  })),
  containers: rowsAt(pod, 'status', 'containerStatuses').map(containerOf),
})

function containerOf(container: Fields) {
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

export const eventOf = (event: KubeObject) => ({
  event_type: textAt(event, 'type') ?? 'Normal',
  reason: textAt(event, 'reason') ?? '',
  message: short(textAt(event, 'message')) ?? '',
  involved_object: textAt(event, 'involvedObject', 'name') ?? '',
  involved_object_kind: textAt(event, 'involvedObject', 'kind') ?? '',
  first_timestamp: textAt(event, 'firstTimestamp') ?? textAt(event, 'eventTime') ?? null,
  last_timestamp: textAt(event, 'lastTimestamp') ?? textAt(event, 'eventTime') ?? null,
  count: Number(event['count'] ?? 1),
})
