// Streams the logs of annotated pods of stacks from now on, each container with its own rate limit.
import { type Kube, type KubeObject, LineSplitter, LineTooLong, rowsAt, startInformer, textAt, valueAt } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { StackFinder } from './find-stack.ts'
import { TokenBucket } from './rate-limit.ts'
import { type TelemetryBuffer, toStorableText } from './telemetry-buffer.ts'

export interface PodLogsDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly ring: TelemetryBuffer
  readonly stackOf: StackFinder
  readonly agentId: string
  readonly linesPerSecond: number
  readonly namespaces: readonly string[] | null
  /** Maximum number of followed containers; default 200. */
  readonly followersMax?: number
}
export const STREAM_LOGS = 'brokkr.io/stream-logs'
const lineBytesMax = 16 * 1024
const defaultFollowersMax = 200
const againMs = 2_000

interface ObservedPod {
  readonly name: string
  readonly namespace: string
  readonly uid: string
  /** v1: the pod names its stack itself. */
  readonly namedStack: string | null
  readonly running: readonly string[]
}

export function startPodLogs(deps: PodLogsDeps): { stop(): Promise<void> } {
  const { followersMax = defaultFollowersMax } = deps
  const following = new Map<string, AbortController>()
  const stopping = new AbortController()
  const informers = (deps.namespaces ?? [undefined]).map((namespace) =>
    startInformer(deps, { kind: { apiVersion: 'v1', kind: 'Pod' }, namespace, project: toPod, isKept: isAsked }),
  )
  const stop = (key: string) => {
    following.get(key)?.abort(new Error('the container ended'))
    following.delete(key)
  }
  const take = (type: string, pod: ObservedPod) => {
    const containers = type === 'deleted' ? [] : pod.running
    for (const key of following.keys()) if (key.startsWith(`${pod.uid}/`) && !containers.includes(key.slice(pod.uid.length + 1))) stop(key)
    for (const container of containers) {
      const key = `${pod.uid}/${container}`
      if (following.has(key)) continue
      if (following.size >= followersMax) {
        void markGap(deps, pod, stopping.signal)
        continue
      }
      const end = new AbortController()
      following.set(key, end)
      void follow(deps, pod, container, AbortSignal.any([end.signal, stopping.signal]))
    }
  }
  for (const informer of informers) informer.onChange(({ type, value }) => take(type, value))
  return {
    stop: async () => {
      stopping.abort(new Error('the agent is stopping'))
      await Promise.all(informers.map((informer) => informer.stop()))
    },
  }
}

/** Other pods are not kept in memory. */
const isAsked = (pod: KubeObject): boolean => pod.metadata.annotations?.[STREAM_LOGS] === 'true'

const toPod = (pod: KubeObject): ObservedPod => ({
  name: pod.metadata.name,
  namespace: pod.metadata.namespace ?? '',
  uid: pod.metadata.uid ?? '',
  namedStack: pod.metadata.annotations?.['k8s.brokkr.io/stack'] ?? null,
  running: rowsAt(pod, 'status', 'containerStatuses')
    .filter((container) => valueAt(container, 'state', 'running') !== undefined)
    .flatMap((container) => textAt(container, 'name') ?? []),
})

/** Records the gap of a log that is not followed. The number of lines is unknown and counts as one. */
async function markGap(deps: PodLogsDeps, pod: ObservedPod, signal: AbortSignal): Promise<void> {
  try {
    const stackId = await deps.stackOf.find({ apiVersion: 'v1', kind: 'Pod', ...pod }, signal)
    if (stackId !== null) deps.ring.drop(stackId, 'buffer_full')
  } catch (error) {
    if (!signal.aborted) deps.log.debug('log gap not recorded', { pod: pod.name, why: errorText(error) })
  }
}

async function follow(deps: PodLogsDeps, pod: ObservedPod, container: string, signal: AbortSignal): Promise<void> {
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

interface FollowedContainer {
  readonly pod: ObservedPod
  readonly container: string
  readonly stackId: string
  readonly bucket: TokenBucket
}

async function readLog(deps: PodLogsDeps, { pod, container, stackId, bucket }: FollowedContainer, signal: AbortSignal): Promise<void> {
  const path = `/api/v1/namespaces/${pod.namespace}/pods/${pod.name}/log`
  const answer = await deps.kube.open(path, { query: { container, follow: true, timestamps: true, tailLines: 0 }, signal })
  try {
    const lines = new LineSplitter(2 * lineBytesMax)
    for await (const chunk of answer.body as AsyncIterable<Buffer>)
      for (const line of lines.push(chunk)) {
        if (!bucket.take()) deps.ring.drop(stackId, 'rate_limit')
        else deps.ring.add({ is: 'pod_log_line', stackId, body: toLogBody(deps, pod, container, stackId, line) })
      }
  } catch (error) {
    if (error instanceof LineTooLong) deps.ring.drop(stackId, 'buffer_full')
    else throw error
  } finally {
    answer.close()
  }
}

function toLogBody(
  { agentId, clock }: PodLogsDeps,
  pod: ObservedPod,
  container: string,
  stackId: string,
  text: string,
): Record<string, unknown> {
  const space = text.indexOf(' ')
  const hasTime = space > 0 && !Number.isNaN(Date.parse(text.slice(0, space)))
  const ts = hasTime ? text.slice(0, space) : new Date(clock.now()).toISOString()
  const line = toStorableText(hasTime ? text.slice(space + 1) : text, lineBytesMax)
  return { agent_id: agentId, stack_id: stackId, namespace: pod.namespace, pod: pod.name, container, ts, line }
}
