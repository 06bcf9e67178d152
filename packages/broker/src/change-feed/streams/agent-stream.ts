// The stream of an agent. Keeps the state key of each stack's last put, so that an unchanged state is not sent again, and the stacks
// that changed while the stream started.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import { FrameStream, type StreamOptions } from './frame-stream.ts'
import type { WireFrame } from './frames.ts'

export interface StreamAgent {
  readonly agentId: string
  /** Fingerprint of the agent's PAK at the start; the stream ends when it changes. */
  readonly pakFingerprint: string | null
  /** Number of the next batch when `hello` was written. */
  readonly helloBatch: number
}

export class AgentStream extends FrameStream implements StreamAgent {
  readonly agentId: string
  readonly pakFingerprint: string | null
  readonly helloBatch: number
  /** Stacks that changed while the stream started; the publisher loads them when it takes over. */
  readonly pendingStackIds = new Set<string>()
  readonly #stateKeys = new Map<string, string>()

  constructor(response: ServerResponse, clock: Clock, agent: StreamAgent, options: StreamOptions) {
    super(response, clock, options)
    this.agentId = agent.agentId
    this.pakFingerprint = agent.pakFingerprint
    this.helloBatch = agent.helloBatch
  }

  /** Writes a put of the start and keeps its state key. */
  async writePut(stackId: string, frame: WireFrame, stateKey: string): Promise<void> {
    this.#stateKeys.set(stackId, stateKey)
    await this.write(frame)
  }

  /** Queues a put. Returns false if the state was sent already: two rows may lead to one state. */
  queuePut(stackId: string, frame: WireFrame, stateKey: string): boolean {
    if (this.#stateKeys.get(stackId) === stateKey) return false
    this.#stateKeys.set(stackId, stateKey)
    this.queue(stackId, frame)
    return true
  }

  queueDel(stackId: string, frame: WireFrame): void {
    this.#stateKeys.delete(stackId)
    this.queue(stackId, frame)
  }

  protected override release(): void {
    super.release()
    this.#stateKeys.clear()
    this.pendingStackIds.clear()
  }
}
