// Who may take a snapshot now: a few at once, a bounded number waiting in line, the rest is told to come back. Resumes pass
// freely. Pure bookkeeping; the place in line is taken before `hello`, the turn awaited after it.
import { ApiError } from '@brokkr/contract/error.ts'
import { uniform } from '@brokkr/runtime/backoff.ts'

export interface Ticket {
  /** Resolves when it is this one's turn. */
  readonly turn: Promise<void>
  /** Gives the place back, whether it was used or only waited for. */
  done(): void
}
export interface Admission {
  /** Throws `overloaded` with a time to come back when the line is full. */
  join(): Ticket
  readonly active: number
  readonly waiting: number
}

/** `onLeft`: a snapshot was taken, or given up. */
export function createAdmission(limits: { slots: number; waitingMax: number }, onLeft: () => void = () => undefined): Admission {
  const line: (() => void)[] = []
  let active = 0
  const leave = () => {
    active -= 1
    onLeft()
    const next = line.shift()
    if (next === undefined) return
    active += 1
    next()
  }
  return {
    get active() {
      return active
    },
    get waiting() {
      return line.length
    },
    join: () => {
      if (active < limits.slots) {
        active += 1
        return ticket(Promise.resolve(), leave)
      }
      if (line.length >= limits.waitingMax) throw full()
      const { promise, resolve } = Promise.withResolvers<void>()
      line.push(resolve)
      return ticket(promise, () => {
        const place = line.indexOf(resolve)
        if (place === -1) leave()
        else line.splice(place, 1)
      })
    },
  }
}

function ticket(turn: Promise<void>, leave: () => void): Ticket {
  let isDone = false
  return {
    turn,
    done: () => {
      if (!isDone) leave()
      isDone = true
    },
  }
}

const full = (): ApiError =>
  new ApiError('overloaded', 'too many agents ask for everything at once: try again', { retryAfterSeconds: Math.round(uniform(1, 10)) })
