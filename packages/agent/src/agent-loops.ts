// Starts the agent's loops: applies changed intervals, stops them with the process, and wakes those that a refresh hint names.
import { randomBetween } from '@brokkr/runtime/backoff.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Lifecycle } from '@brokkr/runtime/lifecycle.ts'
import { type Log } from '@brokkr/runtime/logging/log.ts'
import { type Loop, type LoopOptions, type RunningLoop, startLoop } from '@brokkr/runtime/loop.ts'
import type { LiveSettings } from './live-settings.ts'

export interface AgentLoopsDeps {
  readonly clock: Clock
  readonly log: Log
  readonly lifecycle: Lifecycle
  readonly settings: LiveSettings
}
export interface AgentLoopOptions extends LoopOptions {
  /** Resource of a refresh hint that wakes this loop, for example `work_orders`. */
  readonly refreshedBy?: string
}

export class AgentLoops {
  readonly #deps: AgentLoopsDeps
  readonly #byResource = new Map<string, RunningLoop[]>()

  constructor(deps: AgentLoopsDeps) {
    this.#deps = deps
  }

  start(loop: Loop, options: AgentLoopOptions = {}): RunningLoop {
    const running = this.startUnowned(loop, options)
    this.#deps.lifecycle.onClose(loop.name, () => running.stop())
    return running
  }

  /** The caller stops the loop. A changed interval takes effect at the next wait. */
  startUnowned(loop: Loop, { refreshedBy, ...options }: AgentLoopOptions = {}): RunningLoop {
    const { clock, log, settings } = this.#deps
    const running = startLoop({ clock, log }, loop, options)
    settings.onChange(() => running.retime())
    if (refreshedBy !== undefined) this.#byResource.set(refreshedBy, [...(this.#byResource.get(refreshedBy) ?? []), running])
    return running
  }

  /** Wakes the loops of a resource after a random delay, so that many agents do not read at the same moment. */
  refresh(resource: string, spreadMs: number): void {
    this.#deps.clock.setTimer(randomBetween(0, spreadMs), () => this.#wake(resource))
  }

  /** A new stream may have missed refresh hints. */
  refreshAll(): void {
    for (const resource of this.#byResource.keys()) this.#wake(resource)
  }

  #wake(resource: string): void {
    for (const loop of this.#byResource.get(resource) ?? []) loop.wake()
  }
}
