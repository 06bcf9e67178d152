// Kubernetes Events about objects: what `kubectl describe` shows at its end. Repetitions are counted up in one Event instead of written
// anew; a name chosen by the caller makes an Event that exists at most once. Events explain, they never decide: a failure is logged.
import { createHash } from 'node:crypto'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { hasReason } from './api-error.ts'
import { timeText } from './conditions.ts'
import type { Kube } from './kube.ts'
import type { KubeObject, ObjectRef } from './object.ts'

export interface EventNews {
  type: 'Normal' | 'Warning'
  /** One word in CamelCase. */
  reason: string
  message: string
  annotations?: Record<string, string>
  /** Create if absent: with the same name it is written once, whoever writes it and however often. */
  name?: string
}

export interface Recorder {
  /** Returns at once; what waits is bounded, and beyond the bound the oldest is dropped and counted. */
  record(about: KubeObject | (ObjectRef & { uid?: string }), news: EventNews): void
  /** Resolves when everything recorded so far is written or given up. */
  flush(): Promise<void>
  readonly dropped: number
}

const WAITING_MAX = 1_000
const KNOWN_MAX = 4_096
const REPEAT_MS = 10 * 60_000
const MESSAGE_MAX = 1_024

interface Known {
  name: string
  namespace: string
  count: number
  atMs: number
}

interface Waiting {
  about: ReturnType<typeof referenceOf>
  news: EventNews
  atMs: number
}

export function createRecorder(deps: { kube: Kube; clock: Clock; log: Log }, options: { component: string; instance?: string }): Recorder {
  const waiting: Waiting[] = []
  const known = new Map<string, Known>()
  let running: Promise<void> | undefined
  let dropped = 0

  function record(about: Parameters<Recorder['record']>[0], news: EventNews): void {
    waiting.push({ about: referenceOf(about), news, atMs: deps.clock.now() })
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

  async function write(item: Waiting): Promise<void> {
    if (item.news.name !== undefined) return createOnce(item, item.news.name)
    const key = keyOf(item)
    const before = known.get(key)
    if (before && item.atMs - before.atMs < REPEAT_MS && (await countUp(before, item)))
      return remember(key, { ...before, count: before.count + 1, atMs: item.atMs })
    const name = `${item.about.name.slice(0, 200)}.${createHash('sha256')
      .update(`${key}|${item.atMs}|${options.instance ?? ''}`)
      .digest('hex')
      .slice(0, 16)}`
    await deps.kube.create(eventOf(item, name, options))
    remember(key, { name, namespace: namespaceOf(item), count: 1, atMs: item.atMs })
  }

  async function createOnce(item: Waiting, name: string): Promise<void> {
    try {
      await deps.kube.create(eventOf(item, name, options))
    } catch (error) {
      if (!hasReason(error, 'AlreadyExists')) throw error
    }
  }

  /** False when the Event has been cleaned away meanwhile. */
  async function countUp(before: Known, item: Waiting): Promise<boolean> {
    const body = { count: before.count + 1, lastTimestamp: timeText(item.atMs) }
    try {
      await deps.kube.patch({ apiVersion: 'v1', kind: 'Event', name: before.name, namespace: before.namespace }, { type: 'merge', body })
      return true
    } catch (error) {
      if (hasReason(error, 'NotFound')) return false
      throw error
    }
  }

  function remember(key: string, value: Known): void {
    known.delete(key)
    known.set(key, value)
    const [oldest] = known.keys()
    if (known.size > KNOWN_MAX && oldest !== undefined) known.delete(oldest)
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

function referenceOf(about: Parameters<Recorder['record']>[0]) {
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

const keyOf = ({ about, news }: Waiting): string =>
  JSON.stringify([about.apiVersion, about.kind, about.namespace, about.name, about.uid, news.type, news.reason, news.message])

/** Events about cluster-scoped objects live in `default`: that is where kubectl looks for them. */
const namespaceOf = ({ about }: Waiting): string => about.namespace ?? 'default'

function eventOf(item: Waiting, name: string, options: { component: string; instance?: string }): KubeObject {
  const time = timeText(item.atMs)
  const { annotations } = item.news
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: { name, namespace: namespaceOf(item), ...(annotations ? { annotations } : {}) },
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
