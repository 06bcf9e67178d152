// Limits concurrent snapshots: a few run at once, a bounded number waits, further requests are refused. Resumes are not limited. A
// ticket is taken before `hello`; its turn is awaited after it.
import { ApiError } from '@brokkr/contract/errors.ts'
import { randomBetween } from '@brokkr/runtime/backoff.ts'

export interface Ticket {
  /** Resolves when the snapshot may start. */
  readonly turn: Promise<void>
  /** Releases the slot, or leaves the queue. */
  release(): void
}
export interface SnapshotAdmission {
  /** Throws `overloaded` with a retry time if the queue is full. */
  join(): Ticket
  readonly active: number
  readonly waiting: number
}

export function createSnapshotAdmission(limits: { slots: number; waitingMax: number }): SnapshotAdmission {
  const queue: (() => void)[] = []
  let active = 0
  const releaseSlot = () => {
    active -= 1
    const next = queue.shift()
    if (next === undefined) return
    active += 1
    next()
  }
  return {
    get active() {
      return active
    },
    get waiting() {
      return queue.length
    },
    join: () => {
      if (active < limits.slots) {
        active += 1
        return createTicket(Promise.resolve(), releaseSlot)
      }
      if (queue.length >= limits.waitingMax) throw snapshotQueueFull()
      const { promise, resolve } = Promise.withResolvers<void>()
      queue.push(resolve)
      return createTicket(promise, () => {
        const index = queue.indexOf(resolve)
        if (index === -1) releaseSlot()
        else queue.splice(index, 1)
      })
    },
  }
}

function createTicket(turn: Promise<void>, releaseSlot: () => void): Ticket {
  let isReleased = false
  return {
    turn,
    release: () => {
      if (!isReleased) releaseSlot()
      isReleased = true
    },
  }
}

const snapshotQueueFull = (): ApiError =>
  new ApiError('overloaded', 'too many agents request snapshots at once: try again after the `Retry-After` time', {
    retryAfterSeconds: Math.round(randomBetween(1, 10)),
  })
