// The stream of an agent: what each stack's last put said, so that the same state is not sent twice, and the stacks that changed
// while it started.
import type { ServerResponse } from 'node:http'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { WireFrame } from './frames.ts'
import { FrameStream, type StreamOptions } from './stream.ts'

export interface AgentOfStream {
  readonly agentId: string
  /** What the key of the agent looked like when the stream began; another one ends it. */
  readonly keyMark: string | null
  /** The number of the batch that came next when hello was written. */
  readonly greetedAt: number
}

export class AgentStream extends FrameStream implements AgentOfStream {
  readonly agentId: string
  readonly keyMark: string | null
  readonly greetedAt: number
  /** While the stream starts, changes are noted here by stack and loaded by the reader once it is handed over. */
  readonly noted = new Set<string>()
  readonly #marks = new Map<string, string>()

  constructor(response: ServerResponse, clock: Clock, agent: AgentOfStream, options: StreamOptions) {
    super(response, clock, options)
    this.agentId = agent.agentId
    this.keyMark = agent.keyMark
    this.greetedAt = agent.greetedAt
  }

  /** A put of a start: remembered like those of the queue, so that it is not sent again when nothing changed since. */
  async writePut(stackId: string, frame: WireFrame, mark: string): Promise<void> {
    this.#marks.set(stackId, mark)
    await this.write(frame)
  }

  /** A stack's put; the same state as last time is not sent twice (two rows may lead to one state). False: it was the same. */
  queuePut(stackId: string, frame: WireFrame, mark: string): boolean {
    if (this.#marks.get(stackId) === mark) return false
    this.#marks.set(stackId, mark)
    this.queue(stackId, frame)
    return true
  }

  queueDel(stackId: string, frame: WireFrame): void {
    this.#marks.delete(stackId)
    this.queue(stackId, frame)
  }

  protected override forget(): void {
    super.forget()
    this.#marks.clear()
    this.noted.clear()
  }
}
