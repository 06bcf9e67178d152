// Records Kubernetes Events about objects, as `kubectl describe` shows them. A repeated Event increases a counter instead of creating a new one; a
// name chosen by the caller creates an Event at most once. A failed write is only logged, because no decision depends on Events.
import { createHash } from 'node:crypto'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Kube } from '../client/kube.ts'
import { hasReason } from '../client/kube-error.ts'
import type { KubeObject, ObjectRef } from '../client/object.ts'
import { timeText } from './conditions.ts'

export interface EventNews {
  type: 'Normal' | 'Warning'
  /** One word in CamelCase. */
  reason: string
  message: string
  annotations?: Record<string, string>
  /** Create if absent: an Event with this name is written once, by any writer. */
  name?: string
}

export interface Recorder {
  /** Returns at once. The queue is bounded: beyond the limit the oldest Event is dropped and counted. */
  record(about: KubeObject | (ObjectRef & { uid?: string }), news: EventNews): void
  /** Resolves when all Events recorded so far are written or dropped. */
  flush(): Promise<void>
  readonly dropped: number
}

const WAITING_MAX = 1_000
const KNOWN_MAX = 4_096
const REPEAT_MS = 10 * 60_000
const MESSAGE_MAX = 1_024

interface EventSeries {
  name: string
  namespace: string
  count: number
  atMs: number
}

interface QueuedEvent {
  about: ReturnType<typeof toReference>
  news: EventNews
  atMs: number
}

export function createRecorder(deps: { kube: Kube; clock: Clock; log: Log }, options: { component: string; instance?: string }): Recorder {
  const waiting: QueuedEvent[] = []
  const seriesByKey = new Map<string, EventSeries>()
  let running: Promise<void> | undefined
  let dropped = 0

  function record(about: Parameters<Recorder['record']>[0], news: EventNews): void {
    waiting.push({ about: toReference(about), news, atMs: deps.clock.now() })
    if (waiting.length > WAITING_MAX) {
      waiting.shift()
      dropped++
    }
    running ??= drain().finally(() => {
      running = undefined
    })
  }

  async function drain(): Promise<void> {
    for (let next = waiting.shift(); next; next = waiting.shift()) {
      await write(next).catch((error: unknown) =>
        deps.log.warn('event not written', { component: options.component, reason: next?.news.reason, error: String(error) }),
      )
    }
  }

  async function write(item: QueuedEvent): Promise<void> {
    if (item.news.name !== undefined) return createOnce(item, item.news.name)
    const key = toSeriesKey(item)
    const before = seriesByKey.get(key)
    if (before && item.atMs - before.atMs < REPEAT_MS && (await countUp(before, item)))
      return remember(key, { ...before, count: before.count + 1, atMs: item.atMs })
    const name = `${item.about.name.slice(0, 200)}.${createHash('sha256')
      .update(`${key}|${item.atMs}|${options.instance ?? ''}`)
      .digest('hex')
      .slice(0, 16)}`
    await deps.kube.create(buildEvent(item, name, options))
    remember(key, { name, namespace: getNamespace(item), count: 1, atMs: item.atMs })
  }

  async function createOnce(item: QueuedEvent, name: string): Promise<void> {
    try {
      await deps.kube.create(buildEvent(item, name, options))
    } catch (error) {
      if (!hasReason(error, 'AlreadyExists')) throw error
    }
  }

  /** Returns false if the Event was deleted meanwhile. */
  async function countUp(before: EventSeries, item: QueuedEvent): Promise<boolean> {
    const body = { count: before.count + 1, lastTimestamp: timeText(item.atMs) }
    try {
      await deps.kube.patch({ apiVersion: 'v1', kind: 'Event', name: before.name, namespace: before.namespace }, { type: 'merge', body })
      return true
    } catch (error) {
      if (hasReason(error, 'NotFound')) return false
      throw error
    }
  }

  function remember(key: string, value: EventSeries): void {
    seriesByKey.delete(key)
    seriesByKey.set(key, value)
    const [oldest] = seriesByKey.keys()
    if (seriesByKey.size > KNOWN_MAX && oldest !== undefined) seriesByKey.delete(oldest)
  }

  return {
    record,
    async flush() {
      await running
    },
    get dropped() {
      return dropped
    },
  }
}

function toReference(about: Parameters<Recorder['record']>[0]) {
  const isObject = 'metadata' in about
  const meta = (isObject ? about.metadata : about) as { name: string; namespace?: string; uid?: string; resourceVersion?: string }
  return {
    apiVersion: about.apiVersion,
    kind: about.kind,
    name: meta.name,
    ...(meta.namespace ? { namespace: meta.namespace } : {}),
    ...(meta.uid ? { uid: meta.uid } : {}),
    ...(isObject && meta.resourceVersion ? { resourceVersion: meta.resourceVersion } : {}),
  }
}

const toSeriesKey = ({ about, news }: QueuedEvent): string =>
  JSON.stringify([about.apiVersion, about.kind, about.namespace, about.name, about.uid, news.type, news.reason, news.message])

/** Events about cluster-scoped objects are in `default`, where kubectl looks for them. */
const getNamespace = ({ about }: QueuedEvent): string => about.namespace ?? 'default'

function buildEvent(item: QueuedEvent, name: string, options: { component: string; instance?: string }): KubeObject {
  const time = timeText(item.atMs)
  const { annotations } = item.news
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: getNamespace(item), ...(annotations ? { annotations } : {}) },
    involvedObject: item.about,
    type: item.news.type,
    reason: item.news.reason,
    message: item.news.message.length > MESSAGE_MAX ? `${item.news.message.slice(0, MESSAGE_MAX - 1)}…` : item.news.message,
    source: { component: options.component },
    reportingComponent: options.component,
    reportingInstance: options.instance ?? options.component,
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  }
}
