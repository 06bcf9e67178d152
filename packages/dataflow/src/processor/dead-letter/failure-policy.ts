// Decides about a rejected message or record: it is dead-lettered, or it blocks the flow until a retry succeeds, an operator skips it,
// or the spec changes. No message is skipped silently.
import type { ErrorsSink } from '@brokkr/contract/dataflow/spec/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { ConnectorError } from '../../connectors/connector.ts'
import type { Message } from '../../message/message.ts'
import { buildMessageId } from '../../message/message-id.ts'
import type { InFlightMessage, QueueEntry } from '../pipeline/in-flight-message.ts'
import type { InFlightMessages } from '../pipeline/in-flight-messages.ts'
import { Waiter } from '../pipeline/waiter.ts'
import { BatchNotWritten, type RejectionResult } from '../sinks/batch-writer.ts'
import type { SinkWorker } from '../sinks/sink-worker.ts'
import type { Block, BlockReasons } from './block-reasons.ts'
import type { DeadLetterOrigin, Failure } from './dead-letter.ts'
import type { DeadLetterSender } from './dead-letter-sender.ts'

export interface FailurePolicyDeps {
  readonly clock: Clock
  readonly stopping: AbortSignal
  readonly inFlight: InFlightMessages
  readonly blockReasons: BlockReasons
  readonly deadLetters: DeadLetterSender | undefined
  readonly errors: ErrorsSink | undefined
  readonly blockedEveryMs: number
  /** Position of the message that an operator wants to skip. */
  readonly skip: string | undefined
  describe(message: InFlightMessage): string
  onDeadLetter(failure: Pick<Failure, 'stage' | 'type'>, messageId: string, position: string): void
  onSkip(messageId: string, position: string): void
}

export class FailurePolicy {
  readonly #deps: FailurePolicyDeps
  readonly #failures = new WeakMap<object, FailureState>()
  #blockCount = 0
  readonly #waiter = new Waiter()
  /** Dead letters since the last written record (`sink`) and since the last transformed message (`message`). */
  readonly #consecutive = { sink: 0, message: 0 }
  /** Dead-lettered messages that stay in flight because of ackPolicy never. */
  frozenMessages = 0

  constructor(deps: FailurePolicyDeps) {
    this.#deps = deps
  }

  recordWrite(): void {
    this.#consecutive.sink = 0
  }

  recordTransformed(): void {
    this.#consecutive.message = 0
  }

  /** For a message that could not be decoded or transformed. `retry`: run the chain again. */
  async rejectMessage(
    message: InFlightMessage,
    failure: Pick<Failure, 'stage' | 'type' | 'message' | 'step'>,
    sinkType: string,
  ): Promise<RejectionResult> {
    const payload = message.message
    if (payload === undefined || message.tracker.isForgotten) return 'settled'
    const origin = { positionText: this.#deps.describe(message), recordIndex: 0, sink: sinkType, route: 'default' }
    const result = await this.#decide(message, { message, payload, failure, origin, count: 'message', sinkWorker: undefined })
    if (result === 'settled') this.#failures.delete(message)
    return result
  }

  async rejectRecord(sinkWorker: SinkWorker, entry: QueueEntry, error: ConnectorError, attempts: number): Promise<RejectionResult> {
    const { from: message, record: payload, index: recordIndex } = entry
    const { sinkType: sink, name: route } = sinkWorker.options
    const origin = { positionText: this.#deps.describe(message), recordIndex, sink, route }
    const failure = { stage: 'sink' as const, type: error.type, message: error.message, attempts }
    return this.#decide(entry, { message, payload, failure, origin, count: 'sink', sinkWorker })
  }

  async #decide(key: object, rejection: Rejection): Promise<RejectionResult> {
    const { errors, deadLetters, skip, clock } = this.#deps
    const state: FailureState = this.#failures.get(key) ?? { firstMs: clock.now(), attempts: 0, block: undefined, isDeadLettered: false }
    this.#failures.set(key, state)
    state.attempts += rejection.failure.attempts ?? 1
    if (skip !== undefined && this.#deps.describe(rejection.message) === skip) return this.#skip(rejection, state)
    const isFull = errors !== undefined && errors.maxConsecutive > 0 && this.#consecutive[rejection.count] >= errors.maxConsecutive
    if (errors !== undefined && deadLetters !== undefined && !isFull && !state.isDeadLettered) {
      state.isDeadLettered = true
      this.#consecutive[rejection.count] += 1
      const failure = { ...rejection.failure, firstFailedAtMs: state.firstMs, attempts: state.attempts }
      this.#deps.onDeadLetter(failure, buildMessageId(rejection.payload.metadata), rejection.origin.positionText)
      const acknowledgment = deadLetters.send(rejection.message, rejection.payload, failure, rejection.origin)
      if (errors.ackPolicy !== 'afterMainSinkSuccess' || rejection.sinkWorker === undefined) {
        this.#unblock(state)
        return this.#finishAfter(acknowledgment, rejection, errors.ackPolicy)
      }
      await this.#waitUnlessStopped(acknowledgment)
    }
    this.#block(rejection, state, isFull)
    await this.#wait()
    return 'retry'
  }

  #finishAfter(sent: Promise<void>, { message, sinkWorker }: Rejection, policy: ErrorsSink['ackPolicy']): RejectionResult {
    if (policy === 'never') {
      this.frozenMessages += 1
      sinkWorker?.freezePartition(message.tracker.partition)
      void sent.then(() => this.#deps.inFlight.releasePayload(message))
      return 'settled'
    }
    const finished = sent.then(() => this.#deps.inFlight.finishRecord(message, 'dead-lettered'))
    sinkWorker?.waitForDeadLetter(finished)
    return 'settled'
  }

  #skip({ message, payload, origin }: Rejection, state: FailureState): RejectionResult {
    this.#unblock(state)
    this.#deps.onSkip(buildMessageId(payload.metadata), origin.positionText)
    this.#deps.inFlight.finishRecord(message, 'dropped')
    return 'settled'
  }

  #block({ failure, origin, message, payload }: Rejection, state: FailureState, isFull: boolean): void {
    const text = isFull ? `${this.#deps.errors?.maxConsecutive} dead letters in a row: ${failure.message}` : failure.message
    const reason = {
      stage: failure.stage,
      connector: origin.sink,
      errorType: failure.type,
      message: text,
      position: this.#deps.describe(message),
      messageId: buildMessageId(payload.metadata),
    }
    if (state.block !== undefined) return state.block.update(reason)
    state.block = this.#deps.blockReasons.add(reason)
    this.#blockCount += 1
  }

  /** A retry of the message or record succeeded. */
  acceptAfterRetry(key: object): void {
    if (this.#blockCount === 0) return
    const state = this.#failures.get(key)
    if (state?.block === undefined) return
    this.#unblock(state)
    this.#failures.delete(key)
  }

  #unblock(state: FailureState): void {
    if (state.block === undefined) return
    state.block.end()
    state.block = undefined
    this.#blockCount -= 1
  }

  async #wait(): Promise<void> {
    const { clock, stopping, blockedEveryMs } = this.#deps
    await this.#waiter.wait({ clock, ms: blockedEveryMs, signal: stopping })
    if (stopping.aborted) throw new BatchNotWritten(stoppedWhileBlocked)
  }

  /** Called after partitions were revoked: retries at once, because a block may be gone with its partition. */
  wake(): void {
    this.#waiter.wake()
  }

  async #waitUnlessStopped(work: Promise<void>): Promise<void> {
    try {
      await rejectWhenAborted(work, this.#deps.stopping)
    } catch (cause) {
      throw new BatchNotWritten(stoppedWhileBlocked, { cause })
    }
  }
}

const stoppedWhileBlocked = 'the processor stopped while a message blocked the flow'

interface FailureState {
  readonly firstMs: number
  attempts: number
  block: Block | undefined
  isDeadLettered: boolean
}

interface Rejection {
  readonly message: InFlightMessage
  readonly payload: Message
  readonly failure: Pick<Failure, 'stage' | 'type' | 'message' | 'step'> & { readonly attempts?: number }
  readonly origin: DeadLetterOrigin
  readonly count: 'sink' | 'message'
  readonly sinkWorker: SinkWorker | undefined
}

async function rejectWhenAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
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
