// What becomes of a guilty message or record: a dead letter, or a hold on the flow until it succeeds, is skipped by hand, or the spec
// changes. Silent skipping does not exist.
import type { ErrorsSink } from '@brokkr/contract/dataflow/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { ConnectorError } from './connectors/connector.ts'
import type { Failure, LetterPlace } from './dead-letter.ts'
import type { Hold, Holds } from './holds.ts'
import type { Lane } from './lane.ts'
import type { LetterSender } from './letter-sender.ts'
import type { Message } from './message.ts'
import type { Item, OpenMessage } from './open-message.ts'
import type { OpenMessages } from './open-messages.ts'
import { Waiter } from './waiter.ts'
import { Unwritten, type Verdict } from './writer.ts'

export interface JudgeDeps {
  readonly clock: Clock
  readonly stopping: AbortSignal
  readonly open: OpenMessages
  readonly holds: Holds
  readonly letters: LetterSender | undefined
  readonly errors: ErrorsSink | undefined
  readonly blockedEveryMs: number
  /** Position that a person wants skipped. */
  readonly skip: string | undefined
  describe(of: OpenMessage): string
  lettered(stage: Failure['stage'], type: string): void
  dropped(reason: string): void
}

export class Judge {
  readonly #deps: JudgeDeps
  readonly #since = new WeakMap<object, Known>()
  #held = 0
  readonly #news = new Waiter()
  /** Letters with nothing written, or let through by the chain, between them. */
  readonly #inARow = { sink: 0, message: 0 }
  /** Messages whose letter is written and which stay open on purpose. */
  frozen = 0

  constructor(deps: JudgeDeps) {
    this.#deps = deps
  }

  written(): void {
    this.#inARow.sink = 0
  }

  /** The chain let a message through. */
  passed(): void {
    this.#inARow.message = 0
  }

  /** A message that could not be decoded or transformed. `again`: run it once more. */
  async message(of: OpenMessage, failure: Pick<Failure, 'stage' | 'type' | 'message' | 'step'>, sinkType: string): Promise<Verdict> {
    const payload = of.message
    if (payload === undefined || of.tracker.isForgotten) return 'settled'
    const place = { positionText: this.#deps.describe(of), recordIndex: 0, sink: sinkType, route: 'default' }
    const verdict = await this.#decide(of, { of, payload, failure, place, count: 'message', lane: undefined })
    if (verdict === 'settled') this.#since.delete(of)
    return verdict
  }

  async record(lane: Lane, item: Item, error: ConnectorError, attempts: number): Promise<Verdict> {
    const { from: of, record: payload, index: recordIndex } = item
    const { sinkType: sink, name: route } = lane.options
    const place = { positionText: this.#deps.describe(of), recordIndex, sink, route }
    const failure = { stage: 'sink' as const, type: error.type, message: error.message, attempts }
    return this.#decide(item, { of, payload, failure, place, count: 'sink', lane })
  }

  async #decide(key: object, guilty: Guilty): Promise<Verdict> {
    const { errors, letters, skip, clock } = this.#deps
    const known: Known = this.#since.get(key) ?? { firstMs: clock.now(), attempts: 0, hold: undefined, isTold: false }
    this.#since.set(key, known)
    known.attempts += guilty.failure.attempts ?? 1
    if (skip !== undefined && this.#deps.describe(guilty.of) === skip) return this.#skip(guilty, known)
    const isFull = errors !== undefined && errors.maxConsecutive > 0 && this.#inARow[guilty.count] >= errors.maxConsecutive
    if (errors !== undefined && letters !== undefined && !isFull && !known.isTold) {
      known.isTold = true
      this.#inARow[guilty.count] += 1
      const failure = { ...guilty.failure, firstFailedAtMs: known.firstMs, attempts: known.attempts }
      this.#deps.lettered(failure.stage, failure.type)
      const sent = letters.send(guilty.of, guilty.payload, failure, guilty.place)
      if (errors.ackPolicy !== 'afterMainSinkSuccess' || guilty.lane === undefined) {
        this.#endHold(known)
        return this.#send(guilty, sent, errors.ackPolicy)
      }
      await this.#stoppable(sent)
    }
    this.#hold(guilty, known, isFull)
    await this.#wait()
    return 'again'
  }

  #send({ of, lane }: Guilty, sent: Promise<void>, policy: ErrorsSink['ackPolicy']): Verdict {
    if (policy === 'never') {
      this.frozen += 1
      lane?.freeze(of.tracker.partition)
      void sent.then(() => this.#deps.open.releasePayload(of))
      return 'settled'
    }
    const ended = sent.then(() => this.#deps.open.end(of, 'dead-lettered'))
    lane?.await(ended)
    return 'settled'
  }

  #skip({ of }: Guilty, known: Known): Verdict {
    this.#endHold(known)
    this.#deps.dropped('skipped')
    this.#deps.open.end(of, 'dropped')
    return 'settled'
  }

  #hold({ failure, place, of }: Guilty, known: Known, isFull: boolean): void {
    const message = isFull ? `${this.#deps.errors?.maxConsecutive} dead letters in a row: ${failure.message}` : failure.message
    const reason = { stage: failure.stage, connector: place.sink, errorType: failure.type, message, position: this.#deps.describe(of) }
    if (known.hold !== undefined) return known.hold.update(reason)
    known.hold = this.#deps.holds.begin(reason)
    this.#held += 1
  }

  /** The message or record went through after all. */
  released(key: object): void {
    if (this.#held === 0) return
    const known = this.#since.get(key)
    if (known?.hold === undefined) return
    this.#endHold(known)
    this.#since.delete(key)
  }

  #endHold(known: Known): void {
    if (known.hold === undefined) return
    known.hold.end()
    known.hold = undefined
    this.#held -= 1
  }

  async #wait(): Promise<void> {
    const { clock, stopping, blockedEveryMs } = this.#deps
    await this.#news.wait({ clock, ms: blockedEveryMs, signal: stopping })
    if (stopping.aborted) throw new Unwritten('the process stops while a message holds the flow')
  }

  /** Partitions were given back: what was held because of them may go on. */
  recheck(): void {
    this.#news.wake()
  }

  async #stoppable(work: Promise<void>): Promise<void> {
    try {
      await untilAborted(work, this.#deps.stopping)
    } catch (cause) {
      throw new Unwritten('the process stops while a message holds the flow', { cause })
    }
  }
}

interface Known {
  readonly firstMs: number
  attempts: number
  hold: Hold | undefined
  isTold: boolean
}

interface Guilty {
  readonly of: OpenMessage
  readonly payload: Message
  readonly failure: Pick<Failure, 'stage' | 'type' | 'message' | 'step'> & { readonly attempts?: number }
  readonly place: LetterPlace
  readonly count: 'sink' | 'message'
  readonly lane: Lane | undefined
}

async function untilAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  if (signal.aborted) throw signal.reason
  const { promise, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason as Error)
  signal.addEventListener('abort', abort, { once: true })
  try {
    await Promise.race([work, promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
