// Messages through the chain, in order, batch-wise: yields to the event loop every ten milliseconds, so that probes, heartbeats and
// sinks go on. With more than one worker the chain runs in threads and only the order is kept here.
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Chain, Outcome } from './chain.ts'
import type { ChainWorkers } from './chain-workers.ts'
import type { Failure } from './dead-letter.ts'
import type { Message } from './message.ts'
import type { OpenMessage } from './open-message.ts'
import type { Verdict } from './writer.ts'

export interface ChainStageDeps {
  readonly clock: Clock
  readonly chain: Chain
  readonly workers: ChainWorkers | undefined
  emit(of: OpenMessage, records: readonly Message[], nowMs: number): void
  drop(of: OpenMessage, reason: string): void
  fail(of: OpenMessage, failure: MessageFailure): Promise<Verdict>
  /** A step failed in a way that it should not; the message is dead-lettered like any other. */
  bug(error: Error): void
  /** A message that failed went through after all, or is no longer ours. */
  released(of: OpenMessage): void
  /** What was emitted may be looked at. */
  kick(): void
  took(messages: number, ms: number): void
}

export type MessageFailure = Pick<Failure, 'stage' | 'type' | 'message' | 'step'>
type Ran = Exclude<Outcome, { do: 'fail' }> | { readonly do: 'fail'; readonly failure: MessageFailure }

const sliceMs = 10

export class ChainStage {
  readonly #deps: ChainStageDeps
  #tail: Promise<void> = Promise.resolve()
  #failed: Error | undefined

  constructor(deps: ChainStageDeps) {
    this.#deps = deps
  }

  /** Resolves when there is room for more; everything has been emitted after `drain`. */
  async process(batch: readonly OpenMessage[]): Promise<void> {
    if (this.#failed !== undefined) throw this.#failed
    if (this.#deps.workers === undefined) return this.#inline(batch)
    for await (const { messages, outcomes } of this.#deps.workers.submit(batch))
      this.#tail = this.#tail
        .then(async () => this.#settle(messages, await outcomes))
        .catch((error: unknown) => void (this.#failed = toError(error)))
  }

  async drain(): Promise<void> {
    await this.#tail
    if (this.#failed !== undefined) throw this.#failed
  }

  async #inline(batch: readonly OpenMessage[]): Promise<void> {
    const { clock } = this.#deps
    let startedMs = clock.monotonicMs()
    let nowMs = clock.now()
    let count = 0
    for (const of of batch) {
      if (of.message !== undefined && !of.tracker.isForgotten) {
        const ran = this.#run(of, of.message, nowMs)
        if (ran.do === 'fail') await this.#fail(of, ran.failure)
        else this.#apply(of, ran, startedMs)
      }
      count += 1
      if ((count & 15) !== 0) continue
      const tookMs = clock.monotonicMs() - startedMs
      if (tookMs < sliceMs) continue
      this.#deps.took(count, tookMs)
      this.#deps.kick()
      await nextTurn()
      count = 0
      startedMs = clock.monotonicMs()
      nowMs = clock.now()
    }
    if (count > 0) this.#deps.took(count, clock.monotonicMs() - startedMs)
    this.#deps.kick()
  }

  #run(of: OpenMessage, message: Message, nowMs: number): Ran {
    if (of.fault !== undefined) return { do: 'fail', failure: { stage: 'source', ...of.fault } }
    try {
      return ranOf(this.#deps.chain.run(message, nowMs))
    } catch (thrown) {
      this.#deps.bug(toError(thrown))
      return { do: 'fail', failure: { stage: 'transform', type: 'unknown', message: 'the chain failed on this message' } }
    }
  }

  async #settle(messages: readonly OpenMessage[], outcomes: readonly Outcome[]): Promise<void> {
    const nowMs = this.#deps.clock.monotonicMs()
    for (const [at, of] of messages.entries()) {
      if (of.message === undefined || of.tracker.isForgotten) continue
      const ran: Ran = of.fault === undefined ? ranOf(outcomes[at]!) : { do: 'fail', failure: { stage: 'source', ...of.fault } }
      if (ran.do === 'fail') await this.#fail(of, ran.failure)
      else this.#apply(of, ran, nowMs)
    }
    this.#deps.kick()
  }

  #apply(of: OpenMessage, ran: Exclude<Ran, { do: 'fail' }>, nowMs: number): void {
    if (ran.do === 'write') this.#deps.emit(of, ran.records, nowMs)
    else this.#deps.drop(of, ran.reason)
  }

  /** A message that failed is run again as long as it holds the flow. */
  async #fail(of: OpenMessage, first: MessageFailure): Promise<void> {
    this.#deps.kick()
    let ran: Ran = { do: 'fail', failure: first }
    while (ran.do === 'fail') {
      if ((await this.#deps.fail(of, ran.failure)) === 'settled') return
      if (of.message === undefined || of.tracker.isForgotten) return this.#deps.released(of)
      ran = this.#run(of, of.message, this.#deps.clock.now())
    }
    this.#deps.released(of)
    this.#apply(of, ran, this.#deps.clock.monotonicMs())
  }
}

function ranOf(outcome: Outcome): Ran {
  if (outcome.do !== 'fail') return outcome
  const { error, step } = outcome
  return { do: 'fail', failure: { stage: 'transform', type: error.code, message: error.message, step } }
}
