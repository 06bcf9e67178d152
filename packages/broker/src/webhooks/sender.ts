// Sends what is due, as many at once as this process may: claims a batch, sends each, writes how it ended, and claims again as soon as
// places are free. Whoever dies here leaves leases that lapse, and another process goes on under the same ids.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { createLimiter } from '@brokkr/runtime/concurrency.ts'
import { errorText } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Metrics } from '@brokkr/runtime/metrics.ts'
import * as deliveryLeases from '../store/delivery-leases.ts'
import type { Sql } from '../store/sql.ts'
import { type DeliverDeps, deliver } from './deliver.ts'
import { finishDelivery } from './finish-delivery.ts'
import type { PartsOpener } from './sealed-parts.ts'

export interface SenderDeps extends DeliverDeps {
  readonly sql: Sql
  readonly opener: PartsOpener
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
}
/** Read at every use: they may change while the broker runs. */
export interface SenderSettings {
  readonly batchSize: () => number
  readonly concurrency: () => number
  readonly perSubscription: () => number
}
export interface Sender {
  /** Claims while there is something to claim and a place for it. How many were taken. */
  fill(): Promise<number>
  /** Nothing new; what is on its way may end, for so long. Leases of the rest are given back. */
  stop(graceMs: number): Promise<void>
  readonly inFlight: number
}

/** Places that become free together are filled together. */
const refillMs = 5
/** Of the pool's connections, however many deliveries end at once: callers need theirs. */
const writesMax = 8

export function createSender(deps: SenderDeps, settings: SenderSettings): Sender {
  const { clock, log, metrics } = deps
  const ended = metrics.counter('brokkr_webhook_deliveries_total', 'Tries to deliver a webhook by how they ended', ['result'])
  const took = metrics.histogram('brokkr_webhook_delivery_duration_seconds', 'Duration of one try to deliver a webhook')
  const writes = createLimiter(writesMax)
  const stopping = new AbortController()
  const underWay = new Map<deliveryLeases.ClaimedDelivery, Promise<void>>()
  let filling: Promise<number> | null = null
  let isAskedAgain = false
  let isStopped = false
  let refill: { cancel(): void } | null = null

  const send = async (delivery: deliveryLeases.ClaimedDelivery): Promise<void> => {
    const startedMs = clock.monotonicMs()
    const parts = deps.opener.open(delivery.subscription_id, delivery, 'delivery')
    const { id: deliveryId, event_type: eventType, payload, timeout_seconds } = delivery
    const tried =
      'broken' in parts
        ? ({ is: 'hopeless', statusCode: null, error: `the ${parts.broken} of this webhook cannot be opened with any key` } as const)
        : await deliver(deps, { ...parts, deliveryId, eventType, payload, timeoutMs: timeout_seconds * 1000 }, stopping.signal)
    took.observe((clock.monotonicMs() - startedMs) / 1000)
    const status = await writes.run(() => finishDelivery(deps.sql, { ...delivery, holder: null }, tried))
    ended.inc({ result: status === 'failed' ? 'retry' : (status ?? 'lapsed') })
  }
  const start = (delivery: deliveryLeases.ClaimedDelivery) => {
    const sending = send(delivery)
      // How it ended is not known, or could not be written: its lease lapses, and it is sent again under the same id.
      .catch((error: unknown) => log.debug('delivery left to its lease', { delivery: delivery.id, why: errorText(error) }))
      .finally(() => {
        if (!stopping.signal.aborted) underWay.delete(delivery)
        fillSoon()
      })
    underWay.set(delivery, sending)
  }
  const claimAll = async (): Promise<number> => {
    let total = 0
    for (;;) {
      isAskedAgain = false
      const free = Math.min(settings.batchSize(), settings.concurrency() - underWay.size)
      if (isStopped || free <= 0) return total
      const claimed = await deliveryLeases.claim(deps.sql, { limit: free, slots: settings.perSubscription() })
      for (const delivery of claimed) start(delivery)
      total += claimed.length
      if (claimed.length === 0 && !isAskedAgain) return total
    }
  }
  const fill = (): Promise<number> => {
    isAskedAgain = true
    filling ??= claimAll().finally(() => {
      filling = null
    })
    return filling
  }
  const fillSoon = () => {
    if (isStopped) return
    refill ??= clock.setTimer(refillMs, () => {
      refill = null
      // The task looks again at its next tick, whatever failed here.
      fill().catch((error: unknown) => log.debug('deliveries could not be claimed', { why: errorText(error) }))
    })
  }
  return {
    fill,
    stop: async (graceMs) => {
      isStopped = true
      refill?.cancel()
      await filling?.catch(() => undefined)
      const grace = new AbortController()
      await Promise.race([Promise.all(underWay.values()), clock.sleep(graceMs, grace.signal).catch(() => undefined)])
      grace.abort()
      stopping.abort(new Error('the broker is stopping'))
      await Promise.all(underWay.values())
      const left = [...underWay.keys()]
      if (left.length === 0) return
      const held = { ids: left.map(({ id }) => id), untils: left.map(({ acquired_until }) => acquired_until) }
      await deliveryLeases.release(deps.sql, held).catch(() => undefined)
    },
    get inFlight() {
      return underWay.size
    },
  }
}
