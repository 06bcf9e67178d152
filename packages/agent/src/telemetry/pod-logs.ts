// Follows the logs of pods that ask for it and belong to a stack of ours, from now on, each container at its own bounded rate.
import { rowsAt, textAt, valueAt } from '@brokkr/kube/fields.ts'
import { startInformer } from '@brokkr/kube/informer.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import { LineSplitter, LineTooLong } from '@brokkr/kube/lines.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import { TokenBucket } from './rate.ts'
import type { TelemetryRing } from './ring.ts'
import type { StackOf } from './stack-of.ts'

export interface PodLogsDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly ring: TelemetryRing
  readonly stackOf: StackOf
  readonly agentId: string
  readonly linesPerSecond: number
  readonly namespaces: readonly string[] | null
}
export const STREAM_LOGS = 'brokkr.io/stream-logs'
const lineBytesMax = 16 * 1024
const followersMax = 200
const againMs = 2_000

interface Seen {
  readonly name: string
  readonly namespace: string
  readonly uid: string
  readonly isAsked: boolean
  /** Of the first version: the pod names its stack itself. */
  readonly namedStack: string | null
  readonly running: readonly string[]
}

export function startPodLogs(deps: PodLogsDeps): { stop(): Promise<void> } {
  const following = new Map<string, AbortController>()
  const stopping = new AbortController()
  const informers = (deps.namespaces ?? [undefined]).map((namespace) =>
    startInformer(deps, { kind: { apiVersion: 'v1', kind: 'Pod' }, namespace, project: seenOf }),
  )
  const stop = (key: string) => {
    following.get(key)?.abort(new Error('the container ended'))
    following.delete(key)
  }
  const take = (type: string, pod: Seen) => {
    const wanted = type === 'deleted' || !pod.isAsked ? [] : pod.running
    for (const key of following.keys()) if (key.startsWith(`${pod.uid}/`) && !wanted.includes(key.slice(pod.uid.length + 1))) stop(key)
    for (const container of wanted) {
      const key = `${pod.uid}/${container}`
      if (following.has(key) || following.size >= followersMax) continue
      const end = new AbortController()
      following.set(key, end)
      void follow(deps, pod, container, AbortSignal.any([end.signal, stopping.signal]))
    }
  }
  for (const informer of informers) informer.onChange(({ type, value }) => take(type, value))
  return {
    stop: async () => {
      stopping.abort(new Error('the agent stops'))
      await Promise.all(informers.map((informer) => informer.stop()))
    },
  }
}

const seenOf = (pod: KubeObject): Seen => ({
  name: pod.metadata.name,
  namespace: pod.metadata.namespace ?? '',
  uid: pod.metadata.uid ?? '',
  isAsked: pod.metadata.annotations?.[STREAM_LOGS] === 'true',
  namedStack: pod.metadata.annotations?.['k8s.brokkr.io/stack'] ?? null,
  running: rowsAt(pod, 'status', 'containerStatuses')
    .filter((container) => valueAt(container, 'state', 'running') !== undefined)
    .flatMap((container) => textAt(container, 'name') ?? []),
})

async function follow(deps: PodLogsDeps, pod: Seen, container: string, signal: AbortSignal): Promise<void> {
  const bucket = new TokenBucket(deps.linesPerSecond, () => deps.clock.monotonicMs())
  while (!signal.aborted) {
    try {
      const stackId = await deps.stackOf.find({ apiVersion: 'v1', kind: 'Pod', ...pod }, signal)
      if (stackId === null) return
      await readLog(deps, { pod, container, stackId, bucket }, signal)
    } catch (error) {
      if (!signal.aborted) deps.log.debug('log not followed', { pod: pod.name, container, why: errorText(error) })
    }
    await deps.clock.sleep(againMs, signal).catch(() => undefined)
  }
}

interface Following {
  readonly pod: Seen
  readonly container: string
  readonly stackId: string
  readonly bucket: TokenBucket
}

async function readLog(deps: PodLogsDeps, { pod, container, stackId, bucket }: Following, signal: AbortSignal): Promise<void> {
  const path = `/api/v1/namespaces/${pod.namespace}/pods/${pod.name}/log`
  const answer = await deps.kube.open(path, { query: { container, follow: true, timestamps: true, tailLines: 0 }, signal })
  try {
    const lines = new LineSplitter(2 * lineBytesMax)
    for await (const chunk of answer.body as AsyncIterable<Buffer>)
      for (const line of lines.push(chunk)) {
        if (!bucket.take()) deps.ring.drop(stackId, 'rate_limit')
        else deps.ring.add({ is: 'pod_log_line', stackId, body: bodyOf(deps, pod, container, stackId, line) })
      }
  } catch (error) {
    if (error instanceof LineTooLong) deps.ring.drop(stackId, 'buffer_full')
    else throw error
  } finally {
    answer.close()
  }
}

function bodyOf({ agentId, clock }: PodLogsDeps, pod: Seen, container: string, stackId: string, text: string): Record<string, unknown> {
  const space = text.indexOf(' ')
  const hasTime = space > 0 && !Number.isNaN(Date.parse(text.slice(0, space)))
  const ts = hasTime ? text.slice(0, space) : new Date(clock.now()).toISOString()
  const line = (hasTime ? text.slice(space + 1) : text).slice(0, lineBytesMax)
  return { agent_id: agentId, stack_id: stackId, namespace: pod.namespace, pod: pod.name, container, ts, line }
}
