// Kubernetes events about what stacks of ours brought about, as they come; what happened before we looked is history.
import { textAt } from '@brokkr/kube/fields.ts'
import { type Informer, startInformer } from '@brokkr/kube/informer.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import type { KubeObject } from '@brokkr/kube/object.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { TelemetryRing } from './ring.ts'
import type { StackOf } from './stack-of.ts'

export interface KubeEventsDeps {
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly ring: TelemetryRing
  readonly stackOf: StackOf
  readonly agentId: string
  /** Null: the whole cluster. */
  readonly namespaces: readonly string[] | null
}
const textCharsMax = 4_096

export function startKubeEvents(deps: KubeEventsDeps): { stop(): Promise<void> } {
  const stopping = new AbortController()
  const informers = (deps.namespaces ?? [undefined]).map((namespace) =>
    startInformer(deps, { kind: { apiVersion: 'v1', kind: 'Event' }, namespace, project: eventOf }),
  )
  for (const informer of informers) listen(deps, informer, stopping.signal)
  return {
    stop: async () => {
      stopping.abort(new Error('the agent stops'))
      await Promise.all(informers.map((informer) => informer.stop()))
    },
  }
}

type Seen = ReturnType<typeof eventOf>

const eventOf = (event: KubeObject) => ({
  version: event.metadata.resourceVersion ?? '',
  observed_at: textAt(event, 'lastTimestamp') ?? textAt(event, 'eventTime') ?? event.metadata.creationTimestamp ?? null,
  reason: textAt(event, 'reason') ?? '',
  message: (textAt(event, 'message') ?? '').slice(0, textCharsMax),
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

function listen(deps: KubeEventsDeps, informer: Informer<Seen>, signal: AbortSignal): void {
  informer.onChange(({ type, value }) => {
    if (type === 'deleted' || !informer.synced || value.involved.uid === '') return
    tell(deps, value, signal).catch((error: unknown) => signal.aborted || deps.log.debug('event not told', { why: errorText(error) }))
  })
}

async function tell({ ring, stackOf, agentId, clock }: KubeEventsDeps, seen: Seen, signal: AbortSignal): Promise<void> {
  const stackId = await stackOf.find(seen.involved, signal)
  if (stackId === null) return
  const { involved, version: _version, observed_at, ...rest } = seen
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
