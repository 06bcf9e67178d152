// The chain in several threads. Messages are handed out in pieces and come back in the order in which they went; a piece that costs
// its worker is run again message by message, so that only the guilty one fails.
import type { Transformation } from '@brokkr/contract/dataflow/types.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { createWorkerPool } from '@brokkr/runtime/worker-pool.ts'
import type { Outcome, StepCounts } from './chain.ts'
import { type ChainAnswer, type ChainJob, packMessages, unpackOutcomes } from './chain-pack.ts'
import type { Message } from './message.ts'
import type { OpenMessage } from './open-message.ts'
import { TransformError } from './transform.ts'
import { Waiter } from './waiter.ts'

export interface Submitted {
  readonly messages: readonly OpenMessage[]
  /** Never rejects. */
  readonly outcomes: Promise<readonly Outcome[]>
}

export interface ChainWorkers {
  /** Yields each piece once it was handed out; waits while enough of them are out. */
  submit(batch: readonly OpenMessage[]): AsyncIterable<Submitted>
  close(): Promise<void>
}

/** At most; a small batch is shared by all workers. */
const pieceMessages = 128
const jobTimeoutMs = 60_000
const workerMemoryMb = 256

export function createChainWorkers(
  deps: { readonly clock: Clock; counted(counts: readonly StepCounts[]): void },
  options: { readonly transformations: readonly Transformation[]; readonly workers: number },
): ChainWorkers {
  const pool = createWorkerPool<ChainJob, ChainAnswer>({
    file: new URL('./chain-worker.ts', import.meta.url),
    workers: options.workers,
    waitingMax: options.workers * 4,
    timeoutMs: jobTimeoutMs,
    memoryMb: workerMemoryMb,
  })
  const room = new Waiter()
  let out = 0
  const run = async (messages: readonly Message[]): Promise<readonly Outcome[]> => {
    const nowMs = deps.clock.now()
    const job = { transformations: options.transformations, nowMs, ...packMessages(messages) }
    const answer = await pool.run(job)
    deps.counted(answer.counts)
    return unpackOutcomes(messages, answer)
  }
  return {
    async *submit(batch) {
      const size = Math.min(pieceMessages, Math.max(1, Math.ceil(batch.length / options.workers)))
      for (let at = 0; at < batch.length; at += size) {
        while (out >= options.workers * 2) await room.wait()
        const messages = batch.slice(at, at + size)
        out += 1
        const outcomes = outcomesOf(run, messages).finally(() => {
          out -= 1
          room.wake()
        })
        yield { messages, outcomes }
      }
    },
    close: () => pool.close(),
  }
}

/** Messages that were given back meanwhile have no payload and no outcome that anybody asks for. */
async function outcomesOf(
  run: (messages: readonly Message[]) => Promise<readonly Outcome[]>,
  messages: readonly OpenMessage[],
): Promise<readonly Outcome[]> {
  const present = messages.flatMap(({ message }) => (message === undefined ? [] : [message]))
  const outcomes = await run(present).catch(() => oneByOne(run, present))
  let next = 0
  return messages.map(({ message }) => (message === undefined ? gone : outcomes[next++]!))
}

const gone: Outcome = { do: 'drop', reason: 'filter' }

async function oneByOne(
  run: (messages: readonly Message[]) => Promise<readonly Outcome[]>,
  messages: readonly Message[],
): Promise<readonly Outcome[]> {
  const outcomes: Outcome[] = []
  for (const message of messages) outcomes.push(...(await run([message]).catch(() => [tooMuch()])))
  return outcomes
}

const tooMuch = (): Outcome => ({
  do: 'fail',
  error: new TransformError('chain', '$', 'took too much time or memory', 'transform'),
  step: { index: 0, type: 'filter' },
})
