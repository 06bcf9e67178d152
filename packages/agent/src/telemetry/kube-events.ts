// Sends Kubernetes events about objects of stacks. Events from before the start are not reported.
import { type Kube, type KubeObject, startTail, textAt, type WatchEvent } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import type { StackFinder } from './find-stack.ts'
import { type TelemetryBuffer, toStorableText } from './telemetry-buffer.ts'

export interface KubeEventsDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly ring: TelemetryBuffer
  readonly stackOf: StackFinder
  readonly agentId: string
  /** Null: the whole cluster. */
  readonly namespaces: readonly string[] | null
}
const textCharsMax = 4_096

/** Maximum number of events that wait for the lookup of their stack; more are dropped. */
const waitingMax = 1_000

export function startKubeEvents(deps: KubeEventsDeps): { stop(): Promise<void> } {
  const stopping = new AbortController()
  let waitingCount = 0
  const onEvent = ({ type, object }: WatchEvent) => {
    if (type === 'DELETED' || waitingCount >= waitingMax) return
    const event = toEvent(object)
    if (event.involved.uid === '') return
    waitingCount++
    addToBuffer(deps, event, stopping.signal)
      .catch((error: unknown) => stopping.signal.aborted || deps.log.debug('Kubernetes event not sent', { why: errorText(error) }))
      .finally(() => waitingCount--)
  }
  const tails = (deps.namespaces ?? [undefined]).map((namespace) =>
    startTail(deps, { kind: { apiVersion: 'v1', kind: 'Event' }, namespace, onEvent }),
  )
  return {
    stop: async () => {
      stopping.abort(new Error('the agent is stopping'))
      await Promise.all(tails.map((tail) => tail.stop()))
    },
  }
}

type ObservedEvent = ReturnType<typeof toEvent>

const toEvent = (event: KubeObject) => ({
  observed_at: textAt(event, 'lastTimestamp') ?? textAt(event, 'eventTime') ?? event.metadata.creationTimestamp ?? null,
  reason: textAt(event, 'reason') ?? '',
  message: toStorableText(textAt(event, 'message') ?? '', textCharsMax),
  event_type: textAt(event, 'type') ?? 'Normal',
  source: textAt(event, 'source', 'component') ?? textAt(event, 'reportingComponent') ?? null,
  involved: {
    apiVersion: textAt(event, 'involvedObject', 'apiVersion') ?? 'v1',
    kind: textAt(event, 'involvedObject', 'kind') ?? '',
    namespace: textAt(event, 'involvedObject', 'namespace'),
    name: textAt(event, 'involvedObject', 'name') ?? '',
    uid: textAt(event, 'involvedObject', 'uid') ?? '',
  },
})

async function addToBuffer({ ring, stackOf, agentId, clock }: KubeEventsDeps, event: ObservedEvent, signal: AbortSignal): Promise<void> {
  const stackId = await stackOf.find(event.involved, signal)
  if (stackId === null) return
  const { involved, observed_at, ...rest } = event
  const { apiVersion: api_version, kind, name, uid } = involved
  const involved_object = { api_version, kind, name, uid, namespace: involved.namespace ?? null }
  const body = {
    agent_id: agentId,
    stack_id: stackId,
    observed_at: observed_at ?? new Date(clock.now()).toISOString(),
    ...rest,
    involved_object,
  }
  ring.add({ is: 'k8s_event', stackId, body })
}
