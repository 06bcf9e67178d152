// All lanes of a flow: which one a record takes, and what holds for all of them at once.
import type { Lane } from './lane.ts'
import type { Message, Partition } from './message.ts'

export class LaneSet {
  /** The main sink's first, then the routes'. */
  readonly sinks: Lane[] = []
  readonly #byRoute = new Map<string | undefined, Lane>()
  errors: Lane | undefined

  add(lane: Lane, routeId: string | undefined): void {
    if (lane.options.role === 'errors') this.errors = lane
    else {
      this.sinks.push(lane)
      this.#byRoute.set(routeId, lane)
    }
  }

  get all(): readonly Lane[] {
    return this.errors === undefined ? this.sinks : [...this.sinks, this.errors]
  }

  of({ route }: Message): Lane {
    return this.#byRoute.get(route) ?? this.sinks[0]!
  }

  kick(): void {
    for (const lane of this.sinks) lane.kick()
  }

  /** Several sinks share the budget alone: one that stands still must not stop the others. */
  async room(): Promise<void> {
    if (this.sinks.length === 1) await this.sinks[0]!.room()
  }

  forget(partitions: readonly Partition[]): void {
    for (const lane of this.all) lane.forget(partitions)
  }

  stop(): void {
    for (const lane of this.all) lane.stop()
  }
}
