// A source and a sink whose every answer a test decides, for rules of the pipeline that no server can be made to show on command.
import type { Json, JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type {
  Batch,
  Budget,
  Capabilities,
  Partition,
  Position,
  Positions,
  Rec,
  Sink,
  Source,
  SourceContext,
} from '../../connectors/connector.ts'
import { newMessage, payloadText } from '../../message/message.ts'
import { Waiter } from '../pipeline/waiter.ts'

export const jsonMessage = (json: Json, position: number, partition: Partition = 0, metadata = {}) =>
  newMessage({ raw: Buffer.from(JSON.stringify(json)), metadata, position, partition })

export class ScriptedSource implements Source {
  readonly origin = ''
  readonly commits: Map<Partition, Position>[] = []
  readonly rewinds: unknown[] = []
  readonly #batches: Batch[] = []
  readonly #news = new Waiter()
  context: SourceContext | undefined
  #isOver = false
  reads = 0

  push(batch: Batch): void {
    this.#batches.push(batch)
    this.#news.wake()
  }

  end(): void {
    this.#isOver = true
    this.#news.wake()
  }

  connect(): Promise<void> {
    return Promise.resolve()
  }

  async *read(budget: Budget): AsyncIterable<Batch> {
    const { signal } = this.context!
    for (;;) {
      while (this.#batches.length === 0) {
        if (this.#isOver || signal.aborted) return
        await this.#news.wait({ signal })
      }
      try {
        await budget.room(signal)
      } catch {
        return
      }
      this.reads += 1
      yield this.#batches.shift()!
    }
  }

  commit(upTo: Positions): Promise<void> {
    this.commits.push(new Map(upTo))
    return Promise.resolve()
  }

  get committed(): Record<string, Position> {
    return Object.fromEntries(this.commits.flatMap((commit) => [...commit]))
  }

  lag(): Promise<object> {
    return Promise.resolve({})
  }

  compare(left: Position, right: Position): number {
    return Number(left) - Number(right)
  }

  describe(positions: Positions): string {
    return [...positions].map(([partition, position]) => `p[${partition}]=${position as number}`).join(' ')
  }

  /** What a polling source would keep. */
  keeps: ((committed: Record<string, Position>) => JsonObject) | undefined

  state(): JsonObject | undefined {
    return this.keeps?.(this.committed)
  }

  rewind(to: unknown): Promise<void> {
    this.rewinds.push(to)
    return Promise.resolve()
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}

export interface Write {
  readonly payloads: (string | null)[]
  readonly positions: Record<string, Position>
}

export class ScriptedSink implements Sink {
  capabilities: Capabilities = { exactlyOnce: 'AtLeastOnce', isUpsert: false }
  /** Durable. */
  readonly rows: string[] = []
  /** Every call, refused ones too. */
  readonly writes: Write[] = []
  /** Throws to refuse. */
  script: (payloads: readonly string[], call: number) => void | Promise<void> = () => {}
  marks = new Map<Partition, Position>()
  forgotten = 0

  connect(): Promise<Capabilities> {
    return Promise.resolve(this.capabilities)
  }

  async write(batch: readonly Rec[], positions: Positions): Promise<void> {
    const payloads = batch.map((record) => payloadText(record) ?? 'null')
    this.writes.push({ payloads, positions: Object.fromEntries(positions) })
    await this.script(payloads, this.writes.length)
    this.rows.push(...payloads)
    for (const [partition, position] of positions) this.marks.set(partition, position)
  }

  highWater(): Promise<Map<Partition, Position>> {
    return Promise.resolve(new Map(this.marks))
  }

  forget(): Promise<void> {
    this.forgotten += 1
    this.marks.clear()
    return Promise.resolve()
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
