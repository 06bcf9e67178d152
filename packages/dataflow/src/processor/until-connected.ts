// Connects a part of the flow, however long it takes: what is away may come back, what refuses us may be put right by somebody.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { connectorErrorOf } from './classify.ts'
import type { FlowWatch } from './flow-watch.ts'
import { type RetryPolicy, retryDelayMs } from './retry.ts'
import { FlowEnded } from './writer.ts'

export interface ConnectDeps {
  readonly clock: Clock
  readonly stopping: AbortSignal
  readonly watch: Pick<FlowWatch, 'failed' | 'works'>
  readonly retry: RetryPolicy
}

export interface ConnectedPart {
  readonly connect: () => Promise<void>
  readonly type: string
  readonly at: string
}

export async function untilConnected(deps: ConnectDeps, part: ConnectedPart): Promise<void> {
  const where = { operation: 'connect', connector: part.type, at: part.at } as const
  for (let failures = 0; ; failures += 1) {
    deps.stopping.throwIfAborted()
    try {
      await part.connect()
      deps.watch.works(where)
      return
    } catch (thrown) {
      deps.stopping.throwIfAborted()
      const error = connectorErrorOf(thrown)
      if (error.class === 'fenced') throw new FlowEnded('fenced', error)
      deps.watch.failed(where, error)
      await deps.clock.sleep(retryDelayMs(deps.retry, failures, error.retryAfterMs), deps.stopping)
    }
  }
}
