// Interfaces between the pipeline and its connectors. Opening a connector does nothing; `connect` is the first call. A connector throws
// only ConnectorError, whatever its driver threw.
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type { SourceConditionType } from '@brokkr/contract/dataflow/progress.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { Message, Partition, Position } from '../message/message.ts'
import type { DeadLetterRows } from './dead-letter-rows.ts'

export type { Message, Partition, Position } from '../message/message.ts'

/** Record that a sink writes: a message becomes none, one or many. Read the payload by `payloadBytes`, `payloadText` or `getPayload`. */
export type Rec = Message
/** Inclusive: the last position of the range. */
export type Positions = ReadonlyMap<Partition, Position>

export interface Source {
  /** Resolves when reading may begin; joins no group and uses no slot yet. Called again after it failed and after `read` failed. */
  connect(): Promise<void>
  /** The pipeline pulls batches when it has room. Messages of one partition come in order. Waits for `budget.room` before every fetch.
   *  Ends by itself in a bounded run, else when the caller leaves the loop or the context's signal is aborted. After an error the
   *  pipeline waits, reconnects and reads again: after the last emitted position if the connector still knows it, else after the last
   *  committed one. */
  read(budget: Budget): AsyncIterable<Batch>
  /** All messages up to these positions have an outcome; contains only partitions that advanced since the last successful call. One call
   *  at a time. Resolves when the server stored the positions; for sources without server-side positions at once, and `state` includes
   *  them from then on. */
  commit(upTo: Positions): Promise<void>
  lag(): Promise<Lag>
  /** Ends reading, leaves group and slot. May be called at any time and twice. */
  close(): Promise<void>

  /** Compares two positions of one partition: negative if the first is earlier. */
  compare(left: Position, right: Position): number
  /** Readable text: `orders[0]=1201 orders[1]=998`, `0/15459C8`, `snapshot 881`. */
  describe(positions: Positions): string
  /** Id of the history that positions belong to (a topic's id, a cluster's system identifier); empty if it cannot change. Set after
   *  `connect`. */
  readonly origin: string
  /** State that the checkpoint stores for this source; undefined if the server stores positions (kafka). */
  state(): JsonObject | undefined
  /** Called between `connect` and `read`, when no other processor reads for the flow. Throws class config with the reason if the rewind
   *  is not possible. */
  rewind(to: Rewind): Promise<void>
  /** For sources with consumer groups: identity for committing offsets inside a sink's transaction. Undefined while no partition is
   *  assigned. */
  group?(): Group | undefined
}

/** Never empty. `faults` has an entry, by index, for each message that the source could not decode; such a message is dead-lettered with
 *  stage source. */
export interface Batch {
  readonly messages: readonly Message[]
  readonly faults?: ReadonlyMap<number, Fault>
}
/** Contains no values: it is written to dead letters and logs. */
export interface Fault {
  readonly type: string
  readonly message: string
}

/** Bytes of messages in flight; the pipeline reserves and releases, a source only checks. */
export interface Budget {
  readonly isSpent: boolean
  /** Resolves when the budget is not spent; rejects when the signal is aborted. */
  room(signal?: AbortSignal): Promise<void>
}

/** A part that a source cannot measure is absent, never 0. */
export interface Lag {
  readonly messages?: number
  readonly seconds?: number
  readonly bytes?: number
  /** Bytes of WAL that the server retains for this source. */
  readonly retainedBytes?: number
}

/** `start`: as in the first run of the flow. */
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
  /** Partitions assigned now. */
  readonly partitions: readonly Partition[]
}

export interface Sink {
  /** Longest time that the server may work on one write; the limit of a flush follows it if it is longer. */
  readonly writeTimeoutMs?: number
  /** Called again after it failed and after a write failed with class transient or config. */
  connect(): Promise<Capabilities>
  /** Resolves when the whole batch is durable. A rejection says how many leading records are (`durableRecords`, default none): the
   *  pipeline repeats the others. A sink may so cut a batch by its own measure, such as the length of a statement. `positions`: position of each partition after the
   *  batch; sinks of PositionInSink, SnapshotSummary and Transactions store them with the batch, others ignore them. One write at a
   *  time. After an unknown result the sink asks the server before it repeats; the repeated batch may then be a part of the earlier one.
   *  A record that the sink rejects before it sends anything is class record too. */
  write(batch: readonly Rec[], positions: Positions, signal?: AbortSignal): Promise<void>
  /** Prepares a batch without a connection while the sink writes the previous one. The pipeline writes exactly these records next, or
   *  the preparation is discarded. Never throws. */
  prepare?(batch: readonly Rec[]): void
  /** For sinks that store positions: the stored ones. The call takes the partitions over (a higher epoch) and fences earlier writers.
   *  Called at start and when partitions are assigned. Empty for other sinks. */
  highWater(partitions?: readonly Partition[]): Promise<Map<Partition, Position>>
  /** Deletes the stored positions of this flow, for a rewind; earlier writers stay fenced. */
  forget(): Promise<void>
  close(): Promise<void>
}

export type ExactlyOnce = 'PositionInSink' | 'Transactions' | 'DedupToken' | 'SnapshotSummary' | 'AtLeastOnce' | 'Unavailable'
export interface Capabilities {
  readonly exactlyOnce: ExactlyOnce
  /** Reason for Unavailable or AtLeastOnce. */
  readonly reason?: string
  /** Whether repeated writes are idempotent by key. */
  readonly isUpsert: boolean
}

/** transient, config, unknown: retried · record: bisected · fenced: another processor took over, this process must end. */
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
  /** Delay that the server asked for. */
  readonly retryAfterMs: number | undefined
  /** Index of the rejected record in the batch, if the server or the sink named it: bisection starts there. */
  readonly recordIndex: number | undefined
  /** Number of leading records of the batch that are durable. */
  readonly durableRecords: number
  constructor(
    kind: {
      class: ErrorClass
      type: ErrorType
      retryAfterMs?: number | undefined
      recordIndex?: number | undefined
      durableRecords?: number | undefined
    },
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options)
    this.class = kind.class
    this.type = kind.type
    this.retryAfterMs = kind.retryAfterMs
    this.recordIndex = kind.recordIndex
    this.durableRecords = kind.durableRecords ?? 0
  }
}

export interface ConnectorContext {
  readonly flow: { readonly namespace: string; readonly name: string }
  readonly clock: Clock
  /** Redacts the flow's secrets. */
  readonly log: Log
  /** PROCESSOR_ALLOW_LOOPBACK. */
  readonly allowLoopback: boolean
  /** Aborted when the processor stops. A flush has its own signal. */
  readonly signal: AbortSignal
  /** Registers a secret obtained at run time, such as an access token: from then on it is redacted like the flow's own secrets. */
  addSecret(value: string): void
}

export interface SourceContext extends ConnectorContext {
  /** The last saved `state`. */
  readonly stored: JsonObject | undefined
  /** Read up to the end at the start of the run, then end. */
  readonly isBounded: boolean
  /** Number of processors of this flow. With one, members that an earlier process left in the group may be removed. */
  readonly replicas: number
  /** Equal for all processes of this flow, different for every other flow; absent without a checkpoint. */
  readonly flowId?: string | undefined
  /** Await each: `assigned` before the first message of a partition is emitted; `revoked` before the partition is released (in-flight
   *  messages get 10 s, then `commit` is called). After that, no commit of the partition is sent. */
  assigned(partitions: readonly Partition[]): Promise<void>
  revoked(partitions: readonly Partition[]): Promise<void>
  /** `state` changed in a way that must be saved now (a snapshot finished a table). */
  stateChanged(): void
  /** Sets a condition of the flow; without a message, removes it. */
  condition(type: SourceConditionType, message: string | undefined): void
  /** Reports an event for operators, once per occurrence: SlotLag, removed history of a table. */
  notice(reason: string, message: string): void
  /** Counts messages that a source leaves out on purpose (TRUNCATE). */
  dropped(reason: string, count: number): void
}

export interface SinkContext extends ConnectorContext {
  /** errors: records are dead letters, `{error, original_message}` with the id as key; table sinks store them in the columns id, error,
   *  original_message, created_at, replayed_at and ignore a repeated id. */
  readonly role: 'main' | 'route' | 'errors'
  /** Key of stored positions: the flow, and for a route its id. */
  readonly positionKey: string
  /** Source and its origin; part of the key of stored positions. Set after the source connected. */
  readonly source: Pick<Source, 'origin' | 'group' | 'compare'>
  /** Lower bound of the epoch for taking partitions over. */
  readonly epoch: number
  /** Transactional id while one processor writes for the flow: a new process with the same id aborts the transactions of the previous
   *  one. Undefined with several processors. */
  readonly soleWriter: string | undefined
  /** False if the source may emit messages after a restart that lie before written positions, or several processors write. */
  readonly hasStablePositions: boolean
  /** State that the sink saved last; undefined without one. */
  readonly storedState: JsonObject | undefined
  /** Saves state in the checkpoint; resolves when it is durable. Rejects with class fenced if another processor took over. Undefined
   *  without a checkpoint of this process alone. */
  readonly saveState: ((state: JsonObject) => Promise<void>) | undefined
  conflictsIgnored(count: number): void
}

export interface SourceConnector<Config> {
  open(config: Config, context: SourceContext): Source
  /** Up to `count` messages without side effects: no group, no slot, no commit. For the preview. */
  sample(config: Config, context: ConnectorContext, count: number): Promise<readonly Message[]>
}

export interface SinkConnector<Config> {
  open(config: Config, context: SinkContext): Sink
  /** Dead letters that the sink stored in its table, for a replay. Absent if they cannot be read back. */
  openDeadLetters?(config: Config, context: ConnectorContext): DeadLetterRows
  /** Whether the sink would accept these records, one result each; undefined: yes. No side effects. For the preview. */
  check(config: Config, context: ConnectorContext, records: readonly Rec[]): Promise<readonly (Fault | undefined)[]>
}
