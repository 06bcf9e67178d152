// Reads the source until it ends or the process stops. After a failure it reconnects and reads again, without a limit of attempts.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Batch, Budget, ConnectorError, Source } from '../../connectors/connector.ts'
import { FlowTerminated } from '../sinks/batch-writer.ts'
import { toConnectorError } from '../sinks/classify.ts'
import { type RetryPolicy, retryDelayMs } from './retry.ts'

export interface ReaderDeps {
  readonly source: Pick<Source, 'connect' | 'read'>
  readonly budget: Budget
  readonly clock: Clock
  readonly stopping: AbortSignal
  readonly isBounded: boolean
  readonly retry: RetryPolicy
  /** Resolves when the source may send the next batch. */
  take(batch: Batch): Promise<void>
  onReading(): void
  onFailure(error: ConnectorError, failures: number): void
}

export async function readSource(deps: ReaderDeps): Promise<void> {
  for (let failures = 1, isConnected = true; !deps.stopping.aborted; failures += 1) {
    try {
      if (!isConnected) await deps.source.connect()
      isConnected = false
      deps.onReading()
      for await (const batch of deps.source.read(deps.budget)) {
        failures = 0
        await deps.take(batch).catch(wrapDownstreamError)
        if (deps.stopping.aborted) return
      }
      if (deps.isBounded || deps.stopping.aborted) return
    } catch (thrown) {
      if (thrown instanceof DownstreamError) throw thrown.cause
      if (deps.stopping.aborted) return
      const error = toConnectorError(thrown)
      if (error.class === 'fenced') throw new FlowTerminated('fenced', error)
      deps.onFailure(error, failures)
      await deps.clock.sleep(retryDelayMs(deps.retry, Math.max(0, failures - 1), error.retryAfterMs), deps.stopping).catch(() => {})
    }
  }
}

/** Separates failures of later stages from failures of the source: only the latter are retried here. */
class DownstreamError extends Error {}
const wrapDownstreamError = (cause: unknown): never => {
  throw new DownstreamError('a stage after the reader failed', { cause })
}
