// Reads a topic as a member of the flow's consumer group. Fetching stops while the budget is spent and membership goes on; a partition
// is given back only after its open messages ended; what is committed is what the pipeline said, under the present generation.
import type { KafkaSource as KafkaSourceConfig } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type { BaseOptions } from '@platformatic/kafka'
import type { Batch, Budget, Group, Lag, Message, Partition, Position, Positions, Rewind, Source, SourceContext } from './connector.ts'
import { ConnectorError } from './connector.ts'
import { kafkaOptions, readTopic, said, withAdmin } from './kafka-client.ts'
import { type ValueDecoder, valueDecoder } from './kafka-decode.ts'
import { kafkaError } from './kafka-errors.ts'
import { KafkaFetcher } from './kafka-fetcher.ts'
import { isUnstable, KafkaMember } from './kafka-member.ts'
import { rewindGroup, startOffsets } from './kafka-offsets.ts'

export interface KafkaTuning {
  /** After so long without a word from a member its partitions go to others. */
  readonly sessionTimeoutMs: number
  /** How often a member says that it is there, and hears that partitions move. */
  readonly heartbeatMs: number
  /** How often the number of partitions is looked at. */
  readonly partitionsCheckMs: number
  /** Until we are in the group, and until it says where to begin. Others may take a minute to give partitions back, and a transaction
   *  that was left open half of one to end; whoever waits longer waits for something that was lost, and begins anew. */
  readonly joinMs: number
}
export const kafkaTuning: KafkaTuning = { sessionTimeoutMs: 30_000, heartbeatMs: 3_000, partitionsCheckMs: 60_000, joinMs: 180_000 }

const idleMs = 1_000
const unstableMs = 100
/** A broker that is gone must not hold up the end. */
const leaveMs = 5_000

export class KafkaSource implements Source {
  origin = ''
  readonly #config: KafkaSourceConfig
  readonly #context: SourceContext
  readonly #tuning: KafkaTuning
  readonly #topic: string
  readonly #groupId: string
  #client: BaseOptions | undefined
  #fetcher: KafkaFetcher | undefined
  #member: KafkaMember | undefined
  #decoder: ValueDecoder | undefined
  #partitionCount = 0
  /** The last message handed out, and how far the log is known behind it: between the two lie markers of transactions at most. What
   *  was fetched further and waits to be handed out is no part of it. */
  readonly #handedOut = new Map<number, { last: number; next: bigint }>()
  #wake: () => void = () => {}

  constructor(config: KafkaSourceConfig, context: SourceContext, tuning: KafkaTuning) {
    this.#config = config
    this.#context = context
    this.#tuning = tuning
    this.#topic = config.topic ?? ''
    this.#groupId = config.consumerGroup ?? ''
  }

  async connect(): Promise<void> {
    // After a failure: whatever was ours may be somebody else's by now.
    const lost = [...this.#handedOut.keys()]
    await this.close()
    if (lost.length > 0) await this.#context.revoked(lost)
    this.#client = { ...(await kafkaOptions(this.#config, this.#context)), requestTimeout: this.#config.netReadTimeoutMs }
    this.#fetcher = new KafkaFetcher(this.#client, this.#topic, this.#config, (partition, from, to) => this.#lost(partition, from, to))
    const found = await readTopic({ metadata: ({ forceUpdate }) => this.#fetcher!.metadata(forceUpdate) }, this.#topic, this.#context)
    this.origin = found.id
    this.#partitionCount = found.partitions
    this.#decoder = await valueDecoder(this.#config, this.#context)
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    const { signal } = this.#context
    await this.#leave()
    try {
      const ends = this.#context.isBounded ? await this.#say(() => this.#reading().offsets('latest')) : undefined
      const member = await this.#within('join the group', () => this.#join())
      const checks = { atMs: this.#context.clock.monotonicMs() }
      while (!signal.aborted) {
        const owned = await this.#takeAssigned(member)
        if (ends !== undefined && this.#isComplete(ends, owned)) return
        await budget.room(signal)
        await this.#checkPartitions(member, checks)
        yield* this.#fetched(owned, ends)
      }
    } catch (thrown) {
      // Membership goes on until the end: what was read has yet to be committed.
      if (!signal.aborted) throw kafkaError(thrown, { topic: this.#topic, doing: 'read' })
    }
  }

  async commit(upTo: Positions): Promise<void> {
    const member = this.#member
    if (member === undefined) return
    await said({ topic: this.#topic, doing: 'commit offsets of' }, async () => {
      const owned = new Set(member.partitions())
      const ours = ([...upTo] as [number, number][]).filter(([partition]) => owned.has(partition) || this.#revoking.has(partition))
      await member.commit(new Map(ours.map(([partition, position]) => [partition, this.#behind(partition, position)])))
    })
  }

  async lag(): Promise<Lag> {
    const member = this.#member
    const fetcher = this.#fetcher
    if (member === undefined || fetcher === undefined) return {}
    return said({ topic: this.#topic, doing: 'look at the offsets of' }, async () => {
      const owned = member.partitions()
      if (owned.length === 0) return { messages: 0 }
      const [ends, committed] = [await fetcher.offsets('latest', owned), await member.committed(owned, false)]
      const behind = owned.map((partition) => {
        const at = committed.get(partition) ?? fetcher.position(partition) ?? 0n
        return Number((ends.get(partition) ?? at) - this.#behind(partition, Number(at) - 1))
      })
      return { messages: behind.reduce((sum, each) => sum + Math.max(0, each), 0) }
    })
  }

  async close(): Promise<void> {
    await this.#leave()
    const [fetcher, decoder] = [this.#fetcher, this.#decoder]
    this.#fetcher = undefined
    this.#decoder = undefined
    await fetcher?.close().catch(() => undefined)
    await decoder?.close()
  }

  compare(left: Position, right: Position): number {
    return (left as number) - (right as number)
  }

  describe(positions: Positions): string {
    const sorted = [...positions].toSorted(([a], [b]) => Number(a) - Number(b))
    return sorted.map(([partition, position]) => `${this.#topic}[${partition}]=${position as number}`).join(' ')
  }

  /** The group keeps it. */
  state(): JsonObject | undefined {
    return undefined
  }

  async rewind(to: Rewind): Promise<void> {
    await said({ topic: this.#topic, doing: 'rewind' }, () =>
      withAdmin(this.#connected(), (admin) => rewindGroup({ admin, fetcher: this.#reading() }, this.#groupId, this.#topic, to)),
    )
  }

  group(): Group | undefined {
    return this.#member?.group()
  }

  readonly #revoking = new Set<number>()

  #connected(): BaseOptions {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  #reading(): KafkaFetcher {
    if (this.#fetcher === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#fetcher
  }

  #say<T>(call: () => Promise<T>): Promise<T> {
    return said({ topic: this.#topic, doing: 'read' }, call)
  }

  async #join(): Promise<KafkaMember> {
    const client = this.#connected()
    // Alone in the group: a member that is still there is dead or fenced, and waiting for its session would only cost time.
    if (this.#context.replicas === 1) await this.#say(() => removeMembers(client, this.#groupId))
    const member = new KafkaMember({
      client,
      topic: this.#topic,
      groupId: this.#groupId,
      sessionTimeoutMs: this.#tuning.sessionTimeoutMs,
      heartbeatMs: this.#tuning.heartbeatMs,
      onRevoked: (partitions) => this.#revoked(partitions),
      onChange: () => this.#wake(),
    })
    this.#member = member
    await member.join()
    return member
  }

  async #leave(): Promise<void> {
    const member = this.#member
    this.#member = undefined
    this.#fetcher?.forget(this.#handedOut.keys())
    this.#handedOut.clear()
    const leaving = member?.leave().catch(() => undefined)
    await Promise.race([leaving, this.#context.clock.sleep(leaveMs)])
  }

  /** Partitions that came to us begin at their committed offset, or where the flow says when there is none. */
  async #takeAssigned(member: KafkaMember): Promise<readonly number[]> {
    const fetcher = this.#reading()
    const owned = member.partitions()
    const added = owned.filter((partition) => fetcher.position(partition) === undefined)
    if (added.length === 0) return owned
    const starts = await this.#within('learn where to begin', async () =>
      startOffsets(fetcher, this.#config.startOffset, added, await this.#stable(member, added)),
    )
    await this.#context.assigned(added)
    // What was taken away meanwhile is not ours to read.
    const still = new Set(member.partitions())
    for (const partition of added) if (still.has(partition)) fetcher.readFrom(partition, starts.get(partition)!)
    return owned
  }

  /** The library has calls that never answer when a broker dies at the wrong moment. */
  async #within<T>(doing: string, work: () => Promise<T>): Promise<T> {
    const done = new AbortController()
    const { joinMs } = this.#tuning
    const limit = this.#context.clock.sleep(joinMs, done.signal).then((): never => {
      const text = `could not ${doing} of topic ${this.#topic} within ${Math.round(joinMs / 1000)} s; it is tried anew`
      throw new ConnectorError({ class: 'transient', type: 'timeout' }, text)
    })
    // Once the work has ended nobody waits for it.
    limit.catch(() => undefined)
    const working = work()
    working.catch(() => undefined)
    try {
      return await Promise.race([working, limit])
    } finally {
      done.abort()
    }
  }

  async #stable(member: KafkaMember, partitions: readonly number[]): Promise<Map<number, bigint>> {
    // Left behind by whoever waited too long, it ends with its membership.
    while (this.#member === member) {
      try {
        return await member.committed(partitions)
      } catch (thrown) {
        if (!isUnstable(thrown)) throw thrown
        await this.#context.clock.sleep(unstableMs, this.#context.signal)
      }
    }
    throw new ConnectorError({ class: 'transient', type: 'transient' }, 'the membership has ended')
  }

  async *#fetched(owned: readonly number[], ends: ReadonlyMap<number, bigint> | undefined): AsyncGenerator<Batch> {
    const fetched = owned.length === 0 ? await this.#changed() : await this.#reading().next(owned)
    for (const { partition, messages: all, next } of fetched) {
      // Given back while the partitions before it were handed out.
      if (this.#reading().position(partition) !== next) continue
      const end = ends?.get(partition)
      const messages = end === undefined ? all : all.filter((message) => BigInt(message.position as number) < end)
      this.#passed(partition, messages.at(-1), end === undefined || next < end ? next : end)
      if (messages.length > 0) yield await this.#decoder!.decode(messages)
    }
  }

  #passed(partition: number, lastMessage: Message | undefined, next: bigint): void {
    const last = (lastMessage?.position as number | undefined) ?? this.#handedOut.get(partition)?.last
    if (last !== undefined) this.#handedOut.set(partition, { last, next })
  }

  /** Until a partition comes; a bounded wait, because a member that has none is told nothing. */
  async #changed(): Promise<[]> {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#wake = resolve
    await Promise.race([promise, this.#context.clock.sleep(idleMs, this.#context.signal)])
    return []
  }

  async #revoked(partitions: readonly number[]): Promise<void> {
    for (const partition of partitions) this.#revoking.add(partition)
    this.#fetcher?.forget(partitions)
    try {
      await this.#context.revoked(partitions satisfies readonly Partition[])
    } finally {
      for (const partition of partitions) {
        this.#revoking.delete(partition)
        this.#handedOut.delete(partition)
      }
    }
  }

  async #checkPartitions(member: KafkaMember, checks: { atMs: number }): Promise<void> {
    const nowMs = this.#context.clock.monotonicMs()
    if (nowMs - checks.atMs < this.#tuning.partitionsCheckMs) return
    checks.atMs = nowMs
    const count = (await this.#reading().metadata(true)).topics.get(this.#topic)?.partitionsCount ?? this.#partitionCount
    if (count === this.#partitionCount) return
    this.#partitionCount = count
    await member.rejoin()
  }

  #isComplete(ends: ReadonlyMap<number, bigint>, owned: readonly number[]): boolean {
    const fetcher = this.#reading()
    return owned.length > 0 && owned.every((partition) => (fetcher.position(partition) ?? 0n) >= (ends.get(partition) ?? 0n))
  }

  /** The offset that stands for "up to and with this": behind the markers that follow the last message that was read. */
  #behind(partition: number, position: number): bigint {
    const handedOut = this.#handedOut.get(partition)
    return handedOut?.last === position ? handedOut.next : BigInt(position) + 1n
  }

  #lost(partition: number, from: bigint, to: bigint): void {
    this.#context.notice('MessagesLost', `${this.#topic}[${partition}]: offset ${from} is not there any more, reading goes on at ${to}`)
  }
}

/** Members of a group that nobody has made yet are none. */
async function removeMembers(client: BaseOptions, groupId: string): Promise<void> {
  await withAdmin(client, async (admin) => {
    const groups = await admin.describeGroups({ groups: [groupId] })
    const members = [...(groups.get(groupId)?.members.keys() ?? [])]
    if (members.length === 0) return
    await admin.removeMembersFromConsumerGroup({ groupId, members: members.map((memberId) => ({ memberId, reason: 'taken over' })) })
  })
}
