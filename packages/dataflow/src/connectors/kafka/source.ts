// Reads a topic as a member of the flow's consumer group. Fetching pauses while the budget is spent; the membership continues. Partitions
// are released after their in-flight messages have outcomes; commits use the current generation.
import { randomUUID } from 'node:crypto'
import type { KafkaSource as KafkaSourceConfig } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type { BaseOptions } from '@platformatic/kafka'
import type { Batch, Budget, Group, Lag, Message, Partition, Position, Positions, Rewind, Source, SourceContext } from '../connector.ts'
import { ConnectorError } from '../connector.ts'
import { kafkaOptions, readTopic, withAdmin, withErrorContext } from './client.ts'
import { toKafkaError } from './errors.ts'
import { splitByBytes } from './fetch-size.ts'
import { KafkaFetcher } from './fetcher.ts'
import { GroupMember, isUnstable } from './group-member.ts'
import { rewindGroup, startOffsets } from './offsets.ts'
import { createValueDecoder, type ValueDecoder } from './value-decoder.ts'

export interface KafkaTuning {
  /** A member without a heartbeat for this long loses its partitions. */
  readonly sessionTimeoutMs: number
  /** Heartbeat interval; a heartbeat's response also announces rebalances. */
  readonly heartbeatMs: number
  /** Interval for checking the number of partitions. */
  readonly partitionsCheckMs: number
  /** Limit for joining the group and reading start offsets. Other members may take a minute to release partitions, and an open
   *  transaction half a minute to end; after that the join starts again. */
  readonly joinMs: number
}
export const kafkaTuning: KafkaTuning = { sessionTimeoutMs: 30_000, heartbeatMs: 3_000, partitionsCheckMs: 60_000, joinMs: 180_000 }

const idleMs = 1_000
const batchBytesMax = 1 << 20
const unstableMs = 100
/** Limit for leaving the group, in case the broker is gone. */
const leaveMs = 5_000

interface HandOut {
  readonly partition: number
  readonly messages: readonly Message[]
  readonly next: bigint
  readonly reached: bigint
}

export class KafkaSource implements Source {
  origin = ''
  readonly #config: KafkaSourceConfig
  readonly #context: SourceContext
  readonly #tuning: KafkaTuning
  readonly #topic: string
  readonly #groupId: string
  #client: BaseOptions | undefined
  #fetcher: KafkaFetcher | undefined
  #member: GroupMember | undefined
  #decoder: ValueDecoder | undefined
  #partitionCount = 0
  /** Last emitted message and the known end of the log after it: only transaction markers lie between. Fetched messages that were not
   *  emitted do not count. */
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
    // After a failure, partitions may belong to another member.
    const partitions = [...this.#handedOut.keys()]
    await this.close()
    if (partitions.length > 0) await this.#context.revoked(partitions)
    const options = await kafkaOptions(this.#config, this.#context)
    const clientId = `${this.#memberPrefix ?? `${options.clientId}-`}${randomUUID().slice(0, 8)}`
    this.#client = { ...options, clientId, requestTimeout: this.#config.netReadTimeoutMs }
    this.#fetcher = new KafkaFetcher(this.#client, this.#topic, this.#config, (partition, from, to) => this.#lost(partition, from, to))
    const topicMetadata = await readTopic(
      { metadata: ({ forceUpdate }) => this.#fetcher!.metadata(forceUpdate) },
      this.#topic,
      this.#context,
    )
    this.origin = topicMetadata.id
    this.#partitionCount = topicMetadata.partitions
    this.#decoder = await createValueDecoder(this.#config, this.#context)
  }

  async *read(budget: Budget): AsyncGenerator<Batch> {
    const { signal } = this.#context
    await this.#leave()
    try {
      const ends = this.#context.isBounded ? await this.#withErrorContext(() => this.#reading().offsets('latest')) : undefined
      const member = await this.#within('join the group', () => this.#join())
      const checks = { atMs: this.#context.clock.monotonicMs() }
      while (!signal.aborted) {
        const owned = await this.#takeAssigned(member)
        if (ends !== undefined && this.#isComplete(ends, owned)) return
        await budget.room(signal)
        await this.#checkPartitions(member, checks)
        yield* this.#fetched(owned, ends, budget)
      }
    } catch (thrown) {
      // The membership continues until the end, because read messages have yet to be committed.
      if (!signal.aborted) throw toKafkaError(thrown, { topic: this.#topic, doing: 'read' })
    }
  }

  async commit(upTo: Positions): Promise<void> {
    const member = this.#member
    if (member === undefined) return
    await withErrorContext({ topic: this.#topic, doing: 'commit offsets of' }, async () => {
      const owned = new Set(member.partitions())
      const ours = ([...upTo] as [number, number][]).filter(([partition]) => owned.has(partition) || this.#revoking.has(partition))
      await member.commit(new Map(ours.map(([partition, position]) => [partition, this.#behind(partition, position)])))
    })
  }

  async lag(): Promise<Lag> {
    const member = this.#member
    const fetcher = this.#fetcher
    if (member === undefined || fetcher === undefined) return {}
    return withErrorContext({ topic: this.#topic, doing: 'look at the offsets of' }, async () => {
      const owned = member.partitions()
      if (owned.length === 0) return { messages: 0 }
      const [ends, committedOffsets] = [await fetcher.offsets('latest', owned), await member.readCommittedOffsets(owned, false)]
      const behind = owned.map((partition) => {
        const at = committedOffsets.get(partition) ?? fetcher.position(partition) ?? 0n
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

  /** The group stores the positions. */
  state(): JsonObject | undefined {
    return undefined
  }

  async rewind(to: Rewind): Promise<void> {
    await withErrorContext({ topic: this.#topic, doing: 'rewind' }, () =>
      withAdmin(this.#connected(), (admin) => rewindGroup({ admin, fetcher: this.#reading() }, this.#groupId, this.#topic, to)),
    )
  }

  group(): Group | undefined {
    return this.#member?.group()
  }

  readonly #revoking = new Set<number>()

  /** Prefix of the client ids of this flow's processes; undefined without a flow id. */
  get #memberPrefix(): string | undefined {
    const { flow, flowId } = this.#context
    return flowId === undefined ? undefined : `brokkr-${flow.namespace}-${flow.name}-${flowId}-`
  }

  #connected(): BaseOptions {
    if (this.#client === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#client
  }

  #reading(): KafkaFetcher {
    if (this.#fetcher === undefined) throw new ConnectorError({ class: 'transient', type: 'connection_error' }, 'not connected')
    return this.#fetcher
  }

  #withErrorContext<T>(call: () => Promise<T>): Promise<T> {
    return withErrorContext({ topic: this.#topic, doing: 'read' }, call)
  }

  async #join(): Promise<GroupMember> {
    const client = this.#connected()
    // A member of an earlier process of this flow is dead or fenced; waiting for its session timeout would only delay the start.
    const prefix = this.#memberPrefix
    if (this.#context.replicas === 1 && prefix !== undefined)
      await this.#withErrorContext(() => removeMembers(client, this.#groupId, prefix))
    const member = new GroupMember({
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

  /** New partitions start at their committed offset, else at the flow's startOffset. */
  async #takeAssigned(member: GroupMember): Promise<readonly number[]> {
    const fetcher = this.#reading()
    const owned = member.partitions()
    const newPartitions = owned.filter((partition) => fetcher.position(partition) === undefined)
    if (newPartitions.length === 0) return owned
    const starts = await this.#within('read the start offsets', async () =>
      startOffsets(fetcher, this.#config.startOffset, newPartitions, await this.#stable(member, newPartitions)),
    )
    await this.#context.assigned(newPartitions)
    // Revoked meanwhile.
    const still = new Set(member.partitions())
    for (const partition of newPartitions) if (still.has(partition)) fetcher.readFrom(partition, starts.get(partition)!)
    return owned
  }

  /** The library has calls that never return if a broker dies at a certain moment. */
  async #within<T>(doing: string, work: () => Promise<T>): Promise<T> {
    const timer = new AbortController()
    const { joinMs } = this.#tuning
    const limit = this.#context.clock.sleep(joinMs, timer.signal).then((): never => {
      const text = `could not ${doing} of topic ${this.#topic} within ${Math.round(joinMs / 1000)} s; retrying`
      throw new ConnectorError({ class: 'transient', type: 'timeout' }, text)
    })
    // The work has ended and no caller waits.
    limit.catch(() => undefined)
    const working = work()
    working.catch(() => undefined)
    try {
      return await Promise.race([working, limit])
    } finally {
      timer.abort()
    }
  }

  async #stable(member: GroupMember, partitions: readonly number[]): Promise<Map<number, bigint>> {
    // A call that timed out ends with its membership.
    while (this.#member === member) {
      try {
        return await member.readCommittedOffsets(partitions)
      } catch (thrown) {
        if (!isUnstable(thrown)) throw thrown
        await this.#context.clock.sleep(unstableMs, this.#context.signal)
      }
    }
    throw new ConnectorError({ class: 'transient', type: 'transient' }, 'the membership has ended')
  }

  async *#fetched(owned: readonly number[], ends: ReadonlyMap<number, bigint> | undefined, budget: Budget): AsyncGenerator<Batch> {
    const fetched = owned.length === 0 ? await this.#changed() : await this.#reading().next(owned)
    for (const { partition, messages: all, next } of fetched) {
      // Revoked while earlier partitions were emitted.
      if (this.#reading().position(partition) !== next) continue
      const end = ends?.get(partition)
      const messages = end === undefined ? all : all.filter((message) => BigInt(message.position as number) < end)
      yield* this.#handOut({ partition, messages, next, reached: end === undefined || next < end ? next : end }, budget)
    }
  }

  /** Emits in parts, so that at most one part exceeds the budget. `reached`: known end of the log after the last message. */
  async *#handOut({ partition, messages, next, reached }: HandOut, budget: Budget): AsyncGenerator<Batch> {
    if (messages.length === 0) this.#passed(partition, undefined, reached)
    let remaining = messages.length
    for (const part of splitByBytes(messages, batchBytesMax)) {
      // The first part waited for room before the fetch.
      if (remaining < messages.length) await budget.room(this.#context.signal)
      if (this.#reading().position(partition) !== next) return
      remaining -= part.length
      const last = part.at(-1)!
      this.#passed(partition, last, remaining === 0 ? reached : BigInt(last.position as number) + 1n)
      yield await this.#decoder!.decode(part)
    }
  }

  #passed(partition: number, lastMessage: Message | undefined, next: bigint): void {
    const last = (lastMessage?.position as number | undefined) ?? this.#handedOut.get(partition)?.last
    if (last !== undefined) this.#handedOut.set(partition, { last, next })
  }

  /** Waits until a partition is assigned; bounded, because a member without partitions gets no notification. */
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

  async #checkPartitions(member: GroupMember, checks: { atMs: number }): Promise<void> {
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

  /** Offset that commits up to and including this position: after the markers that follow the last read message. */
  #behind(partition: number, position: number): bigint {
    const handedOut = this.#handedOut.get(partition)
    return handedOut?.last === position ? handedOut.next : BigInt(position) + 1n
  }

  #lost(partition: number, from: bigint, to: bigint): void {
    this.#context.notice('MessagesLost', `${this.#topic}[${partition}]: offset ${from} is not there any more, reading goes on at ${to}`)
  }
}

/** Only members with this client id prefix: other applications may be in the same group. */
async function removeMembers(client: BaseOptions, groupId: string, clientIdPrefix: string): Promise<void> {
  await withAdmin(client, async (admin) => {
    const groups = await admin.describeGroups({ groups: [groupId] })
    const all = [...(groups.get(groupId)?.members ?? [])]
    const members = all.flatMap(([memberId, { clientId }]) => (clientId.startsWith(clientIdPrefix) ? [memberId] : []))
    if (members.length === 0) return
    await admin.removeMembersFromConsumerGroup({ groupId, members: members.map((memberId) => ({ memberId, reason: 'taken over' })) })
  })
}
