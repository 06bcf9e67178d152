// Notification: one Event on the Pipeline with a fixed name and, where an events address is configured, a Flux event under the
// promotion's key. Delivery is at least once: receivers drop repeats by the key.
import { PIPELINE } from '@brokkr/contract/pipelines/fields.ts'
import { hasReason, type Kube, type KubeObject, timeText } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Outbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import { readRetryAfterMs } from '../forges/forge-http.ts'
import type { AttemptFailure, AttemptInput, Strategy } from './strategy.ts'

export interface NotificationDeps {
  readonly kube: Kube
  readonly clock: Clock
  /** Address that takes Flux events; null: Events of the cluster alone. */
  readonly events: { readonly url: string; readonly outbound: Outbound } | null
}

export function notificationStrategy(deps: NotificationDeps): Strategy {
  return {
    kind: 'notification',
    handles: (spec) => spec.notification !== undefined,
    async run(input) {
      const event = toEvent(input, deps.clock.now())
      const eventName = event.metadata.name
      // E1
      await deps.kube.create(event, { signal: input.signal }).catch((error: unknown) => {
        if (!hasReason(error, 'AlreadyExists')) throw error
      })
      if ((await input.saveProgress({ kind: 'notification', eventName })) === 'stop') return { outcome: 'stopped' }
      // E2
      const failure = deps.events === null ? null : await post(deps, deps.events, input)
      if (failure !== null) return failure
      return { outcome: 'applied', effect: { kind: 'notification', eventName, deliveredAt: timeText(deps.clock.now()) } }
    },
  }
}

const messageOf = ({ pipeline, promotion }: AttemptInput): string =>
  `Promote pipeline ${pipeline.namespace}/${pipeline.name} to ${promotion.spec.environment} with version ${promotion.spec.revision}`

function toEvent(input: AttemptInput, nowMs: number): KubeObject {
  const { pipeline, promotion } = input
  const { environment, revision, key } = promotion.spec
  const time = timeText(nowMs)
  return {
    apiVersion: 'v1',
    kind: 'Event',
    metadata: {
      name: `${promotion.name}.promote`,
      namespace: pipeline.namespace,
      annotations: { environment, version: revision, promotion: key },
    },
    involvedObject: { ...PIPELINE, namespace: pipeline.namespace, name: pipeline.name, uid: pipeline.uid },
    type: 'Normal',
    reason: 'Promote',
    message: messageOf(input),
    source: { component: 'brokkr-pipelines' },
    reportingComponent: 'brokkr-pipelines',
    reportingInstance: 'brokkr-pipelines',
    firstTimestamp: time,
    lastTimestamp: time,
    count: 1,
  }
}

/** Keys without the prefix for our receivers; notification-controller drops those and keeps the prefixed ones. */
function toFluxEvent(input: AttemptInput, nowMs: number): object {
  const { pipeline, promotion } = input
  const facts = { environment: promotion.spec.environment, version: promotion.spec.revision, promotion: promotion.spec.key }
  const prefixed = Object.fromEntries(Object.entries(facts).map(([name, value]) => [`pipelines.weave.works/${name}`, value]))
  return {
    involvedObject: { ...PIPELINE, namespace: pipeline.namespace, name: pipeline.name, uid: pipeline.uid },
    severity: 'info',
    timestamp: timeText(nowMs),
    reason: 'Promote',
    message: messageOf(input),
    metadata: { ...facts, ...prefixed },
    reportingController: 'brokkr-pipelines',
  }
}

async function post(
  deps: NotificationDeps,
  events: NonNullable<NotificationDeps['events']>,
  input: AttemptInput,
): Promise<AttemptFailure | null> {
  try {
    const { status, headers } = await events.outbound.request({
      url: events.url,
      method: 'POST',
      headers: { 'content-type': 'application/json', 'idempotency-key': input.promotion.spec.key },
      body: JSON.stringify(toFluxEvent(input, deps.clock.now())),
      signal: input.signal,
    })
    if (status >= 200 && status < 300) return null
    const message = `the events address answered ${status}`
    if (status === 429)
      return {
        outcome: 'failed',
        class: 'rate-limited',
        reason: 'RateLimited',
        message,
        retryAfterMs: readRetryAfterMs(headers, deps.clock.now()),
      }
    const isOurs = status >= 400 && status < 500
    return { outcome: 'failed', class: isOurs ? 'configuration' : 'transient', reason: 'EventsAddressFailed', message }
  } catch (error) {
    return { outcome: 'failed', class: 'transient', reason: 'EventsAddressFailed', message: errorText(error) }
  }
}
