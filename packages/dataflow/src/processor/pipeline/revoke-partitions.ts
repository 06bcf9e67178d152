// Revokes partitions: waits for a bounded time until their in-flight messages have outcomes, commits, and forgets the rest. The next
// reader of a partition reads its forgotten messages again.
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Partition } from '../../message/message.ts'
import type { Committer } from '../checkpoint/committer.ts'
import type { DeadLetterSender } from '../dead-letter/dead-letter-sender.ts'
import type { FailurePolicy } from '../dead-letter/failure-policy.ts'
import type { SinkWorkers } from '../sinks/sink-workers.ts'
import type { InFlightMessages } from './in-flight-messages.ts'

export interface RevokeDeps {
  readonly log: Log
  readonly inFlight: InFlightMessages
  readonly sinkWorkers: SinkWorkers
  readonly committer: Committer
  readonly failurePolicy: FailurePolicy
  readonly deadLetters: DeadLetterSender | undefined
  readonly revokeMs: number
  readonly ended: AbortSignal
}

export async function revokePartitions(deps: RevokeDeps, partitions: readonly Partition[]): Promise<void> {
  const { inFlight, sinkWorkers, committer, failurePolicy, deadLetters, log } = deps
  const deadline = AbortSignal.any([AbortSignal.timeout(deps.revokeMs), deps.ended])
  const endEarlyFlush = sinkWorkers.all.map((sinkWorker) => sinkWorker.flushEarly())
  while (inFlight.countIn(partitions) > 0 && !deadline.aborted) await inFlight.waitForChange(deadline)
  // A transaction that can no longer be committed blocks commits until its partitions are forgotten, so this wait is bounded.
  await Promise.race([commitFinished(deps), waitForAbort(AbortSignal.any([AbortSignal.timeout(deps.revokeMs), deps.ended]))])
  for (const end of endEarlyFlush) end()
  const inFlightCount = inFlight.countIn(partitions)
  inFlight.forgetPartitions(partitions)
  sinkWorkers.forgetPartitions(partitions)
  deadLetters?.dropForgotten()
  failurePolicy.wake()
  committer.forgetPartitions(partitions)
  log.info('partitions revoked', { partitions: partitions.map(String), left: inFlightCount })
}

async function commitFinished({ committer, log }: RevokeDeps): Promise<void> {
  await committer.commit().catch((error: unknown) => log.warn('commit before revocation failed', { error: toError(error) }))
}

function waitForAbort(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  if (signal.aborted) resolve()
  signal.addEventListener('abort', () => resolve(), { once: true })
  return promise
}
