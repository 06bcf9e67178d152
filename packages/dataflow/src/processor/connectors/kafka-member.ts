// Membership of a flow's consumer group: which partitions are ours, given back only after their open messages ended, and commits that
// carry the very generation we are in. The library's own commit would join again and repeat an old position under a new generation.
import { type BaseOptions, type Connection, Consumer, offsetCommitV8, offsetFetchV8 } from '@platformatic/kafka'
import type { Group } from './connector.ts'
import { apiIdsOf } from './kafka-errors.ts'

export interface MemberOptions {
  readonly client: BaseOptions
  readonly topic: string
  readonly groupId: string
  readonly sessionTimeoutMs: number
  readonly heartbeatMs: number
  /** Awaited before the partitions are given back. */
  onRevoked(partitions: readonly number[]): Promise<void>
  /** Something changed: partitions, or the membership failed. */
  onChange(): void
}

export class KafkaMember {
  readonly #options: MemberOptions
  readonly #consumer: Consumer
  #owned: readonly number[] = []
  #failure: Error | undefined

  constructor(options: MemberOptions) {
    this.#options = options
    this.#consumer = new Consumer({
      ...options.client,
      groupId: options.groupId,
      autocommit: false,
      // A group that is just being formed answers "not yet" for some seconds.
      retries: 10,
      retryDelay: 500,
      sessionTimeout: options.sessionTimeoutMs,
      rebalanceTimeout: Math.max(options.sessionTimeoutMs, 60_000),
      heartbeatInterval: options.heartbeatMs,
    })
    this.#consumer.on('consumer:group:join', () => this.#joined())
    // A rejoin that failed for good is told as an error of the whole client.
    ;(this.#consumer as unknown as NodeJS.EventEmitter).on('error', (error: Error) => this.#failed(error))
  }

  async join(): Promise<void> {
    this.#consumer.topics.track(this.#options.topic)
    await this.rejoin()
  }

  /** Also when the topic got more partitions. */
  async rejoin(): Promise<void> {
    await this.#consumer.joinGroup({
      protocols: [{ name: 'cooperative-sticky', version: 1 }],
      // Asked before every request to join, and the only place to wait: what the last round took from us is ended first.
      protocolsMetadata: async () => {
        await this.#giveBack()
        return ownedGeneration(this.#consumer)
      },
    })
  }

  /** Ours at this moment; throws what ended the membership. */
  partitions(): readonly number[] {
    if (this.#failure !== undefined) throw this.#failure
    return this.#owned
  }

  /** Undefined outside of the group. */
  group(): Group | undefined {
    const { groupId, generationId, memberId } = this.#consumer
    if (memberId === null || this.#owned.length === 0) return undefined
    return { groupId, generationId, memberId, topic: this.#options.topic, partitions: this.#owned }
  }

  /** By partition; what has none is absent. Waits while a transaction decides about an offset. */
  async committed(partitions: readonly number[], isStable = true): Promise<Map<number, bigint>> {
    const { groupId, topic } = this.#options
    const request = [{ groupId, memberEpoch: -1, topics: [{ name: topic, partitionIndexes: [...partitions] }] }]
    const answer = await offsetFetchV8.api.async(await this.#coordinator(), request, isStable)
    const found = answer.groups.flatMap((group) => group.topics).flatMap((each) => each.partitions)
    return new Map(found.filter((each) => each.committedOffset >= 0n).map((each) => [each.partitionIndex, each.committedOffset]))
  }

  /** Of the present generation; a member that is none any more commits nothing. */
  async commit(offsets: ReadonlyMap<number, bigint>): Promise<void> {
    const { groupId, generationId, memberId } = this.#consumer
    if (memberId === null || offsets.size === 0) return
    const partitions = [...offsets].map(([partitionIndex, committedOffset]) => ({
      partitionIndex,
      committedOffset,
      committedLeaderEpoch: -1,
      committedMetadata: null,
    }))
    const topics = [{ name: this.#options.topic, partitions }]
    await offsetCommitV8.api.async(await this.#coordinator(), groupId, generationId, memberId, null, topics)
  }

  async leave(): Promise<void> {
    await this.#consumer.close(true)
  }

  async #coordinator(): Promise<Connection> {
    const id = await this.#consumer.findGroupCoordinator()
    const connections = await this.#consumer.connectToBrokers([id])
    const connection = connections.get(id)
    if (connection === undefined) throw new Error(`the coordinator of group ${this.#options.groupId} cannot be reached`)
    return connection
  }

  #joined(): void {
    this.#owned = ownedBy(this.#consumer, this.#options.topic)
    this.#options.onChange()
  }

  #failed(error: Error): void {
    // An old request that ends after the close says so.
    if (!this.#consumer.closed) this.#failure ??= error
    this.#options.onChange()
  }

  async #giveBack(): Promise<void> {
    const kept = new Set(ownedBy(this.#consumer, this.#options.topic))
    const gone = this.#owned.filter((partition) => !kept.has(partition))
    if (gone.length === 0) return
    this.#owned = this.#owned.filter((partition) => kept.has(partition))
    await this.#options.onRevoked(gone)
  }
}

const ownedBy = (consumer: Consumer, topic: string): readonly number[] =>
  (consumer.assignments ?? []).flatMap((assignment) => (assignment.topic === topic ? assignment.partitions : []))

/** What version 1 of the protocol carries for cooperative-sticky: the generation in which the owned partitions were assigned. */
function ownedGeneration(consumer: Consumer): Buffer {
  const isOwner = consumer.memberId !== null && (consumer.assignments ?? []).length > 0
  const data = Buffer.alloc(4)
  data.writeInt32BE(isOwner ? consumer.generationId : -1)
  return data
}

/** Kafka's way to say that the offset is part of an open transaction: the same question again, a moment later. */
export const isUnstable = (thrown: unknown): boolean => apiIdsOf(thrown).includes('UNSTABLE_OFFSET_COMMIT')
