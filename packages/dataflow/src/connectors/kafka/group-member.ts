// Membership in the flow's consumer group: releases partitions after their in-flight messages have outcomes, and commits with the current
// generation. The library's commit would rejoin and commit an old position in a new generation.
import { type BaseOptions, type Connection, Consumer, offsetCommitV8, offsetFetchV8 } from '@platformatic/kafka'
import type { Group } from '../connector.ts'
import { findApiIds } from './errors.ts'

export interface MemberOptions {
  readonly client: BaseOptions
  readonly topic: string
  readonly groupId: string
  readonly sessionTimeoutMs: number
  readonly heartbeatMs: number
  /** Awaited before the partitions are released. */
  onRevoked(partitions: readonly number[]): Promise<void>
  /** Partitions changed, or the membership failed. */
  onChange(): void
}

export class GroupMember {
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
      // A group that is being formed returns retriable errors for some seconds.
      retries: 10,
      retryDelay: 500,
      sessionTimeout: options.sessionTimeoutMs,
      rebalanceTimeout: Math.max(options.sessionTimeoutMs, 60_000),
      heartbeatInterval: options.heartbeatMs,
    })
    this.#consumer.on('consumer:group:join', () => this.#joined())
    // The library reports a permanently failed rejoin as an error of the client.
    ;(this.#consumer as unknown as NodeJS.EventEmitter).on('error', (error: Error) => this.#failed(error))
  }

  async join(): Promise<void> {
    this.#consumer.topics.track(this.#options.topic)
    await this.rejoin()
  }

  /** Also called after the topic gained partitions. */
  async rejoin(): Promise<void> {
    await this.#consumer.joinGroup({
      protocols: [{ name: 'cooperative-sticky', version: 1 }],
      // The only hook that can wait before a join request, so partitions revoked by the last rebalance are released here.
      protocolsMetadata: async () => {
        await this.#releaseRevoked()
        return encodeOwnedGeneration(this.#consumer)
      },
    })
  }

  /** Assigned partitions; throws the error that ended the membership. */
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

  /** Committed offsets; partitions without one are omitted. With `requireStable`, fails with a retriable error while a transaction is
   *  open. */
  async readCommittedOffsets(partitions: readonly number[], requireStable = true): Promise<Map<number, bigint>> {
    const { groupId, topic } = this.#options
    const request = [{ groupId, memberEpoch: -1, topics: [{ name: topic, partitionIndexes: [...partitions] }] }]
    const response = await offsetFetchV8.api.async(await this.#coordinator(), request, requireStable)
    const partitionOffsets = response.groups.flatMap((group) => group.topics).flatMap((each) => each.partitions)
    return new Map(partitionOffsets.filter((each) => each.committedOffset >= 0n).map((each) => [each.partitionIndex, each.committedOffset]))
  }

  /** Commits with the current generation; does nothing after the member left. */
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
    this.#owned = listAssigned(this.#consumer, this.#options.topic)
    this.#options.onChange()
  }

  #failed(error: Error): void {
    // Ignores errors after close.
    if (!this.#consumer.closed) this.#failure ??= error
    this.#options.onChange()
  }

  async #releaseRevoked(): Promise<void> {
    const assigned = new Set(listAssigned(this.#consumer, this.#options.topic))
    const revoked = this.#owned.filter((partition) => !assigned.has(partition))
    if (revoked.length === 0) return
    this.#owned = this.#owned.filter((partition) => assigned.has(partition))
    await this.#options.onRevoked(revoked)
  }
}

const listAssigned = (consumer: Consumer, topic: string): readonly number[] =>
  (consumer.assignments ?? []).flatMap((assignment) => (assignment.topic === topic ? assignment.partitions : []))

/** User data of cooperative-sticky, version 1: generation in which the owned partitions were assigned. */
function encodeOwnedGeneration(consumer: Consumer): Buffer {
  const isOwner = consumer.memberId !== null && (consumer.assignments ?? []).length > 0
  const data = Buffer.alloc(4)
  data.writeInt32BE(isOwner ? consumer.generationId : -1)
  return data
}

/** The offset is part of an open transaction: Kafka asks to retry. */
export const isUnstable = (thrown: unknown): boolean => findApiIds(thrown).includes('UNSTABLE_OFFSET_COMMIT')
