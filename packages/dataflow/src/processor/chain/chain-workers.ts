// Runs the chain in several threads. Slices of a batch are submitted and returned in order. A slice that kills or blocks its worker is run
// again message by message, so that only the message at fault fails.
import type { Transformation } from '@brokkr/contract/dataflow/spec/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { createWorkerPool } from '@brokkr/runtime/workers/worker-pool.ts'
import type { Message } from '../../message/message.ts'
import { TransformError } from '../../transforms/transform.ts'
import type { InFlightMessage } from '../pipeline/in-flight-message.ts'
import { Waiter } from '../pipeline/waiter.ts'
import type { ChainOutcome, StepCounts } from './chain.ts'
import { type ChainJob, type ChainJobResult, packMessages, unpackOutcomes } from './chain-codec.ts'

export interface SubmittedSlice {
  readonly messages: readonly InFlightMessage[]
  /** Never rejects. */
  readonly outcomes: Promise<readonly ChainOutcome[]>
}

export interface ChainWorkers {
  /** Yields each slice once it was submitted; waits while enough slices are running. */
  submit(batch: readonly InFlightMessage[]): AsyncIterable<SubmittedSlice>
  close(): Promise<void>
}

/** Upper limit; a small batch is divided among all workers. */
const sliceMessages = 128
const jobTimeoutMs = 60_000
const workerMemoryMb = 256

export function createChainWorkers(
  deps: { readonly clock: Clock; onCounts(counts: readonly StepCounts[]): void },
  options: { readonly transformations: readonly Transformation[]; readonly workers: number },
): ChainWorkers {
  const pool = createWorkerPool<ChainJob, ChainJobResult>({
    file: new URL('./chain-worker.ts', import.meta.url),
    workers: options.workers,
    waitingMax: options.workers * 4,
    timeoutMs: jobTimeoutMs,
    memoryMb: workerMemoryMb,
  })
  const room = new Waiter()
  let running = 0
  const run = async (messages: readonly Message[]): Promise<readonly ChainOutcome[]> => {
    const nowMs = deps.clock.now()
    const job = { transformations: options.transformations, nowMs, ...packMessages(messages) }
    const answer = await pool.run(job)
    deps.onCounts(answer.counts)
    return unpackOutcomes(messages, answer)
  }
  return {
    async *submit(batch) {
      const size = Math.min(sliceMessages, Math.max(1, Math.ceil(batch.length / options.workers)))
      for (let at = 0; at < batch.length; at += size) {
        while (running >= options.workers * 2) await room.wait()
        const messages = batch.slice(at, at + size)
        running += 1
        const outcomes = runSlice(run, messages).finally(() => {
          running -= 1
          room.wake()
        })
        yield { messages, outcomes }
      }
    },
    close: () => pool.close(),
  }
}

/** Messages of revoked partitions have no payload; their outcome is ignored. */
async function runSlice(
  run: (messages: readonly Message[]) => Promise<readonly ChainOutcome[]>,
  messages: readonly InFlightMessage[],
): Promise<readonly ChainOutcome[]> {
  const present = messages.flatMap(({ message }) => (message === undefined ? [] : [message]))
  const outcomes = await run(present).catch(() => runOneByOne(run, present))
  let next = 0
  return messages.map(({ message }) => (message === undefined ? releasedOutcome : outcomes[next++]!))
}

const releasedOutcome: ChainOutcome = { do: 'drop', reason: 'filter' }

async function runOneByOne(
  run: (messages: readonly Message[]) => Promise<readonly ChainOutcome[]>,
  messages: readonly Message[],
): Promise<readonly ChainOutcome[]> {
  const outcomes: ChainOutcome[] = []
  for (const message of messages) outcomes.push(...(await run([message]).catch(() => [createResourceFailure()])))
  return outcomes
}

const createResourceFailure = (): ChainOutcome => ({
  do: 'fail',
  error: new TransformError('chain', '$', 'took too much time or memory', 'transform'),
  step: { index: 0, type: 'filter' },
})
