// Sends due deliveries up to the concurrency limit of this process: claims a batch, sends each, writes the results, and claims again when
// slots are free. If the process dies, its leases expire and another process sends the deliveries with the same ids.
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { createLimiter } from '@brokkr/runtime/concurrency.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics/metrics.ts'
import type { PartsOpener } from '../subscriptions/sealed-parts.ts'
import { type DeliverDeps, deliver } from './deliver.ts'
import { finishDelivery } from './finish-delivery.ts'
import * as deliveryLeases from './store/delivery-leases.ts'

export interface SenderDeps extends DeliverDeps {
  readonly sql: Sql
  readonly opener: PartsOpener
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}
/** Read at every use, because they may change while the broker runs. */
export interface SenderSettings {
  readonly batchSize: () => number
  readonly concurrency: () => number
  readonly perSubscription: () => number
}
export interface Sender {
  /** Claims deliveries while some are due and slots are free. Returns how many were claimed. */
  fill(): Promise<number>
  /** Stops claiming, waits up to the grace time for deliveries in flight, and releases the leases of the rest. */
  stop(graceMs: number): Promise<void>
  readonly inFlight: number
}

/** Slots that become free within this time are filled by one claim. */
const refillMs = 5
/** Limits the connections used for results, so that API calls get theirs. */
const writesMax = 8

export function createSender(deps: SenderDeps, settings: SenderSettings): Sender {
  const { clock, log, metrics } = deps
  const attemptCounter = metrics.counter('brokkr_webhook_deliveries_total', 'Number of delivery attempts by result', ['result'])
  const attemptDuration = metrics.histogram('brokkr_webhook_delivery_duration_seconds', 'Duration of one delivery attempt')
  const writes = createLimiter(writesMax)
  const stopping = new AbortController()
  const inFlight = new Map<deliveryLeases.ClaimedDelivery, Promise<void>>()
  let filling: Promise<number> | null = null
  let isFillRequested = false
  let isStopped = false
  let refill: { cancel(): void } | null = null

  const send = async (delivery: deliveryLeases.ClaimedDelivery): Promise<void> => {
    const startedMs = clock.monotonicMs()
    const parts = deps.opener.open(delivery.subscription_id, delivery, 'delivery')
    const { id: deliveryId, event_type: eventType, payload, timeout_seconds } = delivery
    const attempt =
      'broken' in parts
        ? ({
            is: 'permanentFailure',
            statusCode: null,
            error: `the ${parts.broken} of this webhook cannot be decrypted with any configured key`,
          } as const)
        : await deliver(deps, { ...parts, deliveryId, eventType, payload, timeoutMs: timeout_seconds * 1000 }, stopping.signal)
    attemptDuration.observe((clock.monotonicMs() - startedMs) / 1000)
    const status = await writes.run(() => finishDelivery(deps.sql, { ...delivery, holder: null }, attempt))
    attemptCounter.inc({ result: status === 'failed' ? 'retry' : (status ?? 'lapsed') })
  }
  const start = (delivery: deliveryLeases.ClaimedDelivery) => {
    const sending = send(delivery)
      // The result is unknown or could not be written: the lease expires and the delivery is sent again with the same id.
      .catch((error: unknown) => log.debug('delivery result not stored', { delivery: delivery.id, why: errorText(error) }))
      .finally(() => {
        if (!stopping.signal.aborted) inFlight.delete(delivery)
        fillSoon()
      })
    inFlight.set(delivery, sending)
  }
  const claimAll = async (): Promise<number> => {
    let total = 0
    for (;;) {
      isFillRequested = false
      const free = Math.min(settings.batchSize(), settings.concurrency() - inFlight.size)
      if (isStopped || free <= 0) return total
      const claimed = await deliveryLeases.claim(deps.sql, { limit: free, slots: settings.perSubscription() })
      for (const delivery of claimed) start(delivery)
      total += claimed.length
      if (claimed.length === 0 && !isFillRequested) return total
    }
  }
  const fill = (): Promise<number> => {
    isFillRequested = true
    filling ??= claimAll().finally(() => {
      filling = null
    })
    return filling
  }
  const fillSoon = () => {
    if (isStopped) return
    refill ??= clock.setTimer(refillMs, () => {
      refill = null
      // Not retried here: the task claims again at its next run.
      fill().catch((error: unknown) => log.debug('delivery claim failed', { why: errorText(error) }))
    })
  }
  return {
    fill,
    stop: async (graceMs) => {
      isStopped = true
      refill?.cancel()
      await filling?.catch(() => undefined)
      const grace = new AbortController()
      await Promise.race([Promise.all(inFlight.values()), clock.sleep(graceMs, grace.signal).catch(() => undefined)])
      grace.abort()
      stopping.abort(new Error('the broker is stopping'))
      await Promise.all(inFlight.values())
      const unfinished = [...inFlight.keys()]
      if (unfinished.length === 0) return
      const leases = { ids: unfinished.map(({ id }) => id), untils: unfinished.map(({ acquired_until }) => acquired_until) }
      await deliveryLeases.release(deps.sql, leases).catch(() => undefined)
    },
    get inFlight() {
      return inFlight.size
    },
  }
}
