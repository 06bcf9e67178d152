// Runs messages through the chain, in order. Yields to the event loop every 10 ms, so that probes, heartbeats and sinks keep running.
// With more than one transform worker the chain runs in worker threads, and this stage only keeps the order.
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { toError } from '@brokkr/runtime/errors.ts'
import type { Message } from '../../message/message.ts'
import type { Failure } from '../dead-letter/dead-letter.ts'
import type { InFlightMessage } from '../pipeline/in-flight-message.ts'
import type { RejectionResult } from '../sinks/batch-writer.ts'
import type { Chain, ChainOutcome } from './chain.ts'
import type { ChainWorkers } from './chain-workers.ts'

export interface ChainStageDeps {
  readonly clock: Clock
  readonly chain: Chain
  readonly workers: ChainWorkers | undefined
  enqueue(message: InFlightMessage, records: readonly Message[], nowMs: number): void
  drop(message: InFlightMessage, reason: string): void
  fail(message: InFlightMessage, failure: MessageFailure): Promise<RejectionResult>
  /** A step threw something else than a TransformError; the message is dead-lettered like any other. */
  onUnexpectedError(error: Error, message: Message): void
  /** A failed message succeeded in a retry, or its partition was revoked. */
  onAccepted(message: InFlightMessage): void
  wakeSinkWorkers(): void
  onDuration(messages: number, ms: number): void
}

export type MessageFailure = Pick<Failure, 'stage' | 'type' | 'message' | 'step'>
type ChainResult = Exclude<ChainOutcome, { do: 'fail' }> | { readonly do: 'fail'; readonly failure: MessageFailure }

const sliceMs = 10

export class ChainStage {
  readonly #deps: ChainStageDeps
  #tail: Promise<void> = Promise.resolve()
  #error: Error | undefined

  constructor(deps: ChainStageDeps) {
    this.#deps = deps
  }

  /** Resolves when there is room for more; after `drain` all records are enqueued. */
  async process(batch: readonly InFlightMessage[]): Promise<void> {
    if (this.#error !== undefined) throw this.#error
    if (this.#deps.workers === undefined) return this.#processInline(batch)
    for await (const { messages, outcomes } of this.#deps.workers.submit(batch))
      this.#tail = this.#tail
        .then(async () => this.#applyOutcomes(messages, await outcomes))
        .catch((error: unknown) => void (this.#error = toError(error)))
  }

  async drain(): Promise<void> {
    await this.#tail
    if (this.#error !== undefined) throw this.#error
  }

  async #processInline(batch: readonly InFlightMessage[]): Promise<void> {
    const { clock } = this.#deps
    let startedMs = clock.monotonicMs()
    let nowMs = clock.now()
    let count = 0
    for (const message of batch) {
      if (message.message !== undefined && !message.tracker.isForgotten) {
        const result = this.#run(message, message.message, nowMs)
        if (result.do === 'fail') await this.#handleFailure(message, result.failure)
        else this.#apply(message, result, startedMs)
      }
      count += 1
      if ((count & 15) !== 0) continue
      const tookMs = clock.monotonicMs() - startedMs
      if (tookMs < sliceMs) continue
      this.#deps.onDuration(count, tookMs)
      this.#deps.wakeSinkWorkers()
      await nextTurn()
      count = 0
      startedMs = clock.monotonicMs()
      nowMs = clock.now()
    }
    if (count > 0) this.#deps.onDuration(count, clock.monotonicMs() - startedMs)
    this.#deps.wakeSinkWorkers()
  }

  #run({ fault }: InFlightMessage, payload: Message, nowMs: number): ChainResult {
    if (fault !== undefined) return { do: 'fail', failure: { stage: 'source', ...fault } }
    try {
      return toChainResult(this.#deps.chain.run(payload, nowMs))
    } catch (thrown) {
      this.#deps.onUnexpectedError(toError(thrown), payload)
      return { do: 'fail', failure: { stage: 'transform', type: 'unknown', message: 'the chain failed on this message' } }
    }
  }

  async #applyOutcomes(messages: readonly InFlightMessage[], outcomes: readonly ChainOutcome[]): Promise<void> {
    const nowMs = this.#deps.clock.monotonicMs()
    for (const [at, message] of messages.entries()) {
      const { fault } = message
      if (message.message === undefined || message.tracker.isForgotten) continue
      const result: ChainResult =
        fault === undefined ? toChainResult(outcomes[at]!) : { do: 'fail', failure: { stage: 'source', ...fault } }
      if (result.do === 'fail') await this.#handleFailure(message, result.failure)
      else this.#apply(message, result, nowMs)
    }
    this.#deps.wakeSinkWorkers()
  }

  #apply(message: InFlightMessage, result: Exclude<ChainResult, { do: 'fail' }>, nowMs: number): void {
    if (result.do === 'write') this.#deps.enqueue(message, result.records, nowMs)
    else this.#deps.drop(message, result.reason)
  }

  /** Runs the chain again while the message blocks the flow. */
  async #handleFailure(message: InFlightMessage, first: MessageFailure): Promise<void> {
    this.#deps.wakeSinkWorkers()
    let result: ChainResult = { do: 'fail', failure: first }
    while (result.do === 'fail') {
      if ((await this.#deps.fail(message, result.failure)) === 'settled') return
      if (message.message === undefined || message.tracker.isForgotten) return this.#deps.onAccepted(message)
      result = this.#run(message, message.message, this.#deps.clock.now())
    }
    this.#deps.onAccepted(message)
    this.#apply(message, result, this.#deps.clock.monotonicMs())
  }
}

function toChainResult(outcome: ChainOutcome): ChainResult {
  if (outcome.do !== 'fail') return outcome
  const { error, step } = outcome
  return { do: 'fail', failure: { stage: 'transform', type: error.code, message: error.message, step } }
}
