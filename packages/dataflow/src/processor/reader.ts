// Reads the source until it ends or the process stops; after a failure it connects and reads again, for ever.
import type { Clock } from '@brokkr/runtime/clock.ts'
import { connectorErrorOf } from './classify.ts'
import type { Batch, Budget, ConnectorError, Source } from './connectors/connector.ts'
import { type RetryPolicy, retryDelayMs } from './retry.ts'
import { FlowEnded } from './writer.ts'

export interface ReaderDeps {
  readonly source: Pick<Source, 'connect' | 'read'>
  readonly budget: Budget
  readonly clock: Clock
  readonly stopping: AbortSignal
  readonly isBounded: boolean
  readonly retry: RetryPolicy
  /** Resolves when the next batch may come. */
  take(batch: Batch): Promise<void>
  reading(): void
  failed(error: ConnectorError, failures: number): void
}

export async function readSource(deps: ReaderDeps): Promise<void> {
  for (let failures = 1, isConnected = true; !deps.stopping.aborted; failures += 1) {
    try {
      if (!isConnected) await deps.source.connect()
      isConnected = false
      deps.reading()
      for await (const batch of deps.source.read(deps.budget)) {
        failures = 0
        await deps.take(batch).catch(passOn)
        if (deps.stopping.aborted) return
      }
      if (deps.isBounded || deps.stopping.aborted) return
    } catch (thrown) {
      if (thrown instanceof Downstream) throw thrown.cause
      if (deps.stopping.aborted) return
      const error = connectorErrorOf(thrown)
      if (error.class === 'fenced') throw new FlowEnded('fenced', error)
      deps.failed(error, failures)
      await deps.clock.sleep(retryDelayMs(deps.retry, Math.max(0, failures - 1), error.retryAfterMs), deps.stopping).catch(() => {})
    }
  }
}

/** What went wrong behind the reader is none of the source's failures. */
class Downstream extends Error {}
const passOn = (cause: unknown): never => {
  throw new Downstream('behind the reader', { cause })
}
