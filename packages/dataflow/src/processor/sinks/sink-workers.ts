// All sink workers of a flow, and the choice of the worker for a record.

import type { Message, Partition } from '../../message/message.ts'
import type { SinkWorker } from './sink-worker.ts'

export class SinkWorkers {
  /** Main sink first, then routes. */
  readonly sinks: SinkWorker[] = []
  readonly #byRoute = new Map<string | undefined, SinkWorker>()
  errors: SinkWorker | undefined

  add(sinkWorker: SinkWorker, routeId: string | undefined): void {
    if (sinkWorker.options.role === 'errors') this.errors = sinkWorker
    else {
      this.sinks.push(sinkWorker)
      this.#byRoute.set(routeId, sinkWorker)
    }
  }

  get all(): readonly SinkWorker[] {
    return this.errors === undefined ? this.sinks : [...this.sinks, this.errors]
  }

  getFor({ route }: Message): SinkWorker {
    return this.#byRoute.get(route) ?? this.sinks[0]!
  }

  wake(): void {
    for (const sinkWorker of this.sinks) sinkWorker.wake()
  }

  /** With several sinks only the byte budget limits reading: one slow sink must not stop the others. */
  async waitForRoom(): Promise<void> {
    if (this.sinks.length === 1) await this.sinks[0]!.waitForRoom()
  }

  forgetPartitions(partitions: readonly Partition[]): void {
    for (const sinkWorker of this.all) sinkWorker.forgetPartitions(partitions)
  }

  stop(): void {
    for (const sinkWorker of this.all) sinkWorker.stop()
  }
}
