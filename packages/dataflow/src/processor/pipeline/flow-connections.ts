// Connects the source and the sinks of a flow, in parallel and with unlimited retries. A part that rejects the connection is reported
// as blocked until an operator fixes it.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Partition, Source } from '../../connectors/connector.ts'
import { FlowTerminated } from '../sinks/batch-writer.ts'
import { toConnectorError } from '../sinks/classify.ts'
import type { SinkWorkers } from '../sinks/sink-workers.ts'
import type { FlowStatus } from '../status/flow-status.ts'
import { type RetryPolicy, retryDelayMs } from './retry.ts'

export interface ConnectionDeps {
  readonly clock: Clock
  readonly stopping: AbortSignal
  readonly flowStatus: Pick<FlowStatus, 'recordFailure' | 'recordSuccess'>
  readonly retry: RetryPolicy
  readonly source: Source
  readonly sourceType: string
  readonly sinkWorkers: SinkWorkers
}

export interface FlowPart {
  readonly connect: () => Promise<void>
  readonly type: string
  readonly at: string
}

export class FlowConnections {
  readonly #deps: ConnectionDeps

  constructor(deps: ConnectionDeps) {
    this.#deps = deps
  }

  async connect(): Promise<void> {
    const { source, sourceType, sinkWorkers } = this.#deps
    const sinks = sinkWorkers.all.map((worker) => ({
      connect: () => worker.connect(),
      type: worker.options.sinkType,
      at: worker.options.name,
    }))
    const parts = [{ connect: () => source.connect(), type: sourceType, at: 'source' }, ...sinks]
    await Promise.all(parts.map((part) => this.connectPart(part)))
  }

  /** Reads the positions of sinks that store them, which fences earlier writers. */
  async takeOverPositions(partitions?: readonly Partition[]): Promise<void> {
    for (const worker of this.#deps.sinkWorkers.sinks) {
      const { sinkType, name } = worker.options
      await this.connectPart({ connect: () => worker.takeOverPositions(partitions), type: sinkType, at: name })
    }
  }

  /** Retries `part.connect` until it succeeds, the flow stops, or another writer fenced this process. */
  async connectPart(part: FlowPart): Promise<void> {
    const { clock, stopping, flowStatus, retry } = this.#deps
    const where = { operation: 'connect', connector: part.type, at: part.at } as const
    for (let failures = 0; ; failures += 1) {
      stopping.throwIfAborted()
      try {
        await part.connect()
        flowStatus.recordSuccess(where)
        return
      } catch (thrown) {
        stopping.throwIfAborted()
        const error = toConnectorError(thrown)
        if (error.class === 'fenced') throw new FlowTerminated('fenced', error)
        flowStatus.recordFailure(where, error)
        await clock.sleep(retryDelayMs(retry, failures, error.retryAfterMs), stopping)
      }
    }
  }
}
