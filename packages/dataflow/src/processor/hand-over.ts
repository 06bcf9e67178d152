// Giving partitions back: what is open of them gets a moment to end and is committed; what has not ended by then is another's, and
// nothing that happens to it here counts any more.
import { toError } from '@brokkr/runtime/errors.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Committer } from './committer.ts'
import type { Judge } from './judge.ts'
import type { LaneSet } from './lane-set.ts'
import type { LetterSender } from './letter-sender.ts'
import type { Partition } from './message.ts'
import type { OpenMessages } from './open-messages.ts'

export interface HandOverDeps {
  readonly log: Log
  readonly open: OpenMessages
  readonly lanes: LaneSet
  readonly committer: Committer
  readonly judge: Judge
  readonly letters: LetterSender | undefined
  readonly revokeMs: number
  readonly ended: AbortSignal
}

export async function giveBack(deps: HandOverDeps, partitions: readonly Partition[]): Promise<void> {
  const { open, lanes, committer, judge, letters, log } = deps
  const deadline = AbortSignal.any([AbortSignal.timeout(deps.revokeMs), deps.ended])
  const calm = lanes.all.map((lane) => lane.hurry())
  while (open.openIn(partitions) > 0 && !deadline.aborted) await open.changed(deadline)
  // A transaction that cannot be committed any more holds commits up until its partitions are forgotten: it is not waited for long.
  await Promise.race([committed(deps), aborted(AbortSignal.any([AbortSignal.timeout(deps.revokeMs), deps.ended]))])
  for (const settle of calm) settle()
  const left = open.openIn(partitions)
  open.forget(partitions)
  lanes.forget(partitions)
  letters?.forget()
  judge.recheck()
  committer.forget(partitions)
  log.info('partitions given back', { partitions: partitions.map(String), left })
}

async function committed({ committer, log }: HandOverDeps): Promise<void> {
  await committer.commit().catch((error: unknown) => log.warn('commit before giving partitions back failed', { error: toError(error) }))
}

function aborted(signal: AbortSignal): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  if (signal.aborted) resolve()
  signal.addEventListener('abort', () => resolve(), { once: true })
  return promise
}
