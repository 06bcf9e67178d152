// Connects the parts of a flow, all at once and for ever: what is refused is shown as blocked until somebody puts it right.
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Partition, Source } from './connectors/connector.ts'
import type { LaneSet } from './lane-set.ts'
import { type ConnectDeps, type ConnectedPart, untilConnected } from './until-connected.ts'

export interface ConnectionDeps extends ConnectDeps {
  readonly clock: Clock
  readonly source: Source
  readonly sourceType: string
  readonly lanes: LaneSet
}

export class FlowConnections {
  readonly #deps: ConnectionDeps

  constructor(deps: ConnectionDeps) {
    this.#deps = deps
  }

  async connect(): Promise<void> {
    const { source, sourceType, lanes } = this.#deps
    const parts = [
      { connect: () => source.connect(), type: sourceType, at: 'source' },
      ...lanes.all.map((lane) => ({ connect: () => lane.connect(), type: lane.options.sinkType, at: lane.options.name })),
    ]
    await Promise.all(parts.map((part) => this.patiently(part)))
  }

  /** Sinks that keep positions are asked for theirs; earlier writers are fenced from then on. */
  async takeOver(partitions?: readonly Partition[]): Promise<void> {
    for (const lane of this.#deps.lanes.sinks)
      await this.patiently({ connect: () => lane.takeOver(partitions), type: lane.options.sinkType, at: lane.options.name })
  }

  patiently(part: ConnectedPart): Promise<void> {
    return untilConnected(this.#deps, part)
  }
}
