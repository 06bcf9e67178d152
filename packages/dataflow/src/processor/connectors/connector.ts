// What a source and a sink are to the pipeline, and what they may expect of it. Every connector is opened by one of the two shapes at
// the end; opening does nothing, `connect` is the first call. Errors leave a connector as ConnectorError, whatever the driver threw.
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { Message, Partition, Position } from '../message.ts'

export type { Message, Partition, Position } from '../message.ts'

/** What a sink writes: one message may become none, one or many. The payload is read by `payloadBytes`, `payloadText` or `payloadOf`. */
export type Rec = Message
/** Inclusive: the last position that is meant. */
export type Positions = ReadonlyMap<Partition, Position>

export interface Source {
  /** Ends when reading may begin; joins no group and takes no slot yet. Called again after it failed, and after `read` failed. */
  connect(): Promise<void>
  /** Pulled: the next batch is asked for when there is room for it. Messages of one partition come in order. Waits for `budget.room`
   *  before every fetch. Ends by itself in a bounded run, else when the caller leaves the loop or the context's signal is aborted.
   *  After an error the pipeline waits, connects and reads again: from the position behind the last that was handed out when the
   *  connector still knows it, else from the last committed one. */
  read(budget: Budget): AsyncIterable<Batch>
  /** Everything up to these has ended, for partitions that moved since the last call that succeeded. One call at a time. Resolves
   *  when the server has it where a server keeps positions; else at once, and `state` tells it from then on. */
  commit(upTo: Positions): Promise<void>
  lag(): Promise<Lag>
  /** Ends reading, leaves group and slot in order. Safe at any time and twice. */
  close(): Promise<void>

  /** Order of two positions of one partition: negative when the first is earlier. */
  compare(left: Position, right: Position): number
  /** What people read: `orders[0]=1201 orders[1]=998`, `0/15459C8`, `snapshot 881`. */
  describe(positions: Positions): string
  /** Where positions begin anew if it changes (a topic's id, a cluster's system identifier); blank where that cannot be. Known after `connect`. */
  readonly origin: string
  /** What checkpoint.json keeps under the source's type; undefined for sources whose server keeps it (kafka). */
  state(): JsonObject | undefined
  /** Called between `connect` and `read`, with every other reader of the flow gone. Throws class config with the reason when refused. */
  rewind(to: Rewind): Promise<void>
  /** Of sources with groups: who commits, for offsets within a sink's transaction. Undefined while no partition is assigned. */
  group?(): Group | undefined
}

/** A batch is never empty. A message that the source could not decode has its fault here, by index; it ends as a letter of stage source. */
export interface Batch {
  readonly messages: readonly Message[]
  readonly faults?: ReadonlyMap<number, Fault>
}
/** No values in the text: it reaches letters and logs. */
export interface Fault {
  readonly type: string
  readonly message: string
}

/** Bytes read and not yet ended; the pipeline takes and gives them, a source only asks. */
export interface Budget {
  readonly isSpent: boolean
  /** Resolves as soon as the budget is not spent; rejects when the signal is aborted. */
  room(signal?: AbortSignal): Promise<void>
}

/** What a source cannot know is absent, never 0. */
export interface Lag {
  readonly messages?: number
  readonly seconds?: number
  readonly bytes?: number
}

/** `start`: as if the flow ran for the first time. */
export type Rewind =
  | 'start'
  | 'earliest'
  | 'latest'
  | { readonly time: string }
  | { readonly offsets: Readonly<Record<string, number>> }
  | { readonly changeTime: string; readonly orderValue?: string }
  | { readonly lsn: string }
  | { readonly snapshotId: string }
  | { readonly resnapshot: readonly string[] }

export interface Group {
  readonly groupId: string
  readonly generationId: number
  readonly memberId: string
  readonly topic: string
  /** Assigned at this moment. */
  readonly partitions: readonly Partition[]
}

export interface Sink {
  /** Called again after it failed, and after a write failed with class transient or config. */
  connect(): Promise<Capabilities>
  /** Resolves when all of the batch is durable, rejects when none of it is known to be. `positions`: where each partition stands once it
   *  is; sinks of PositionInSink, SnapshotSummary and Transactions keep them with the batch, others ignore them. One write at a time.
   *  After an outcome that is unknown the sink asks the server before it repeats; the batch may then be a part of the earlier one.
   *  A record refused by the sink itself, before anything was sent, is class record too. */
  write(batch: readonly Rec[], positions: Positions, signal?: AbortSignal): Promise<void>
  /** Work on a batch that needs no connection, while the batch before it is being written. Exactly these records are written next, or
   *  what was made of them is of no use. Never throws. */
  prepare?(batch: readonly Rec[]): void
  /** Of sinks that keep positions: where they stand. Asking takes the partitions over (a higher epoch): from then on a writer that
   *  asked earlier is fenced. Asked at start and whenever partitions are assigned. Empty for all other sinks. */
  highWater(partitions?: readonly Partition[]): Promise<Map<Partition, Position>>
  /** Forgets the positions kept for this flow, for a rewind; later writers stay fenced. */
  forget(): Promise<void>
  close(): Promise<void>
}

export type ExactlyOnce = 'PositionInSink' | 'Transactions' | 'DedupToken' | 'SnapshotSummary' | 'AtLeastOnce' | 'Unavailable'
export interface Capabilities {
  readonly exactlyOnce: ExactlyOnce
  /** Why not, for Unavailable. */
  readonly reason?: string
  /** Whether a repeat is harmless by key. */
  readonly isUpsert: boolean
}

/** transient, config, unknown: tried again · record: bisected · fenced: another took over, this process must end. */
export type ErrorClass = 'transient' | 'record' | 'config' | 'unknown' | 'fenced'
export type ErrorType =
  | 'context_canceled'
  | 'timeout'
  | 'connection_error'
  | 'constraint_violation'
  | 'invalid_data'
  | 'transient'
  | 'auth_error'
  | 'unknown'

export class ConnectorError extends Error {
  override name = 'ConnectorError'
  readonly class: ErrorClass
  readonly type: ErrorType
  /** What the server asked for. */
  readonly retryAfterMs: number | undefined
  /** Index into the batch, where the server or the sink itself told which record it refused: bisection begins there. */
  readonly recordIndex: number | undefined
  constructor(
    kind: { class: ErrorClass; type: ErrorType; retryAfterMs?: number | undefined; recordIndex?: number | undefined },
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.class = kind.class
    this.type = kind.type
    this.retryAfterMs = kind.retryAfterMs
    this.recordIndex = kind.recordIndex
  }
}

export interface ConnectorContext {
  readonly flow: { readonly namespace: string; readonly name: string }
  readonly clock: Clock
  /** Redacts the flow's secrets. */
  readonly log: Log
  /** PROCESSOR_ALLOW_LOOPBACK. */
  readonly allowLoopback: boolean
  /** Aborted when the process stops: waits end at once. A flush has its own. */
  readonly signal: AbortSignal
}

export interface SourceContext extends ConnectorContext {
  /** What `state` gave when it was last saved. */
  readonly stored: JsonObject | undefined
  /** Read up to the end seen when reading begins, then end. */
  readonly isBounded: boolean
  /** How many processors read for this flow. One alone may end members that an earlier one left in its group. */
  readonly replicas: number
  /** Await each: `assigned` before the first message of a partition is handed out; `revoked` before the partition is given back
   *  (open messages end within 10 s, then `commit` is called for them). After that the partition's commits are no longer sent. */
  assigned(partitions: readonly Partition[]): Promise<void>
  revoked(partitions: readonly Partition[]): Promise<void>
  /** `state` changed in a way that must be kept at once (a snapshot's table is complete). */
  stateChanged(): void
  /** Something an operator should see as an event, once per happening: SlotLag, a table's history is gone. */
  notice(reason: string, message: string): void
  /** Messages that a source leaves out on purpose (TRUNCATE). */
  dropped(reason: string, count: number): void
}

export interface SinkContext extends ConnectorContext {
  /** errors: records are letters, `{error, original_message}` with the letter's id as key; table sinks keep them in the columns id,
   *  error, original_message, created_at, replayed_at, and a repeated id is ignored. */
  readonly role: 'main' | 'route' | 'errors'
  /** Under which positions are kept: the flow, and for a route which one. */
  readonly positionKey: string
  /** Source and its origin; part of the key under which a partition's position is kept. Known once the source is connected. */
  readonly source: Pick<Source, 'origin' | 'group' | 'compare'>
  /** A lower bound of the epoch with which partitions are taken over. */
  readonly epoch: number
  /** Names the flow's transactions while one processor alone writes for it: a start under the same name ends what the last one left
   *  open. Undefined with several. */
  readonly soleWriter: string | undefined
  conflictsIgnored(count: number): void
}

export interface SourceConnector<Config> {
  open(config: Config, context: SourceContext): Source
  /** Up to `count` messages without any trace: no group, no slot, nothing committed, nothing created. For the preview. */
  sample(config: Config, context: ConnectorContext, count: number): Promise<readonly Message[]>
}

export interface SinkConnector<Config> {
  open(config: Config, context: SinkContext): Sink
  /** Whether these records would be taken, one answer each; undefined: yes. Nothing is left behind. For the preview. */
  check(config: Config, context: ConnectorContext, records: readonly Rec[]): Promise<readonly (Fault | undefined)[]>
}
