// Fetches the assigned partitions: one request per broker in flight. A position that retention removed is reported and moved to the oldest
// message.
import { type BaseOptions, type ClusterMetadata, Consumer, FetchIsolationLevels, fetchV13, ListOffsetTimestamps } from '@platformatic/kafka'
import { type FetchedPartition, type ReadRecords, readRecords } from './decode-batches.ts'
import { findApiIds, toKafkaError } from './errors.ts'
import { byteSum, FetchSize } from './fetch-size.ts'

export interface FetchSettings {
  readonly isolation: 'committed' | 'uncommitted'
  readonly fetchMinBytes: number
  readonly fetchMaxBytes: number
  readonly maxPartitionFetchBytes: number
  readonly consumerMaxWaitMs: number
}
export interface FetchedRecords extends ReadRecords {
  readonly partition: number
  /** Start offset of the fetch. */
  readonly from: bigint
}

interface FetchPlan {
  readonly metadata: ClusterMetadata
  readonly node: number
  readonly partitions: readonly number[]
  /** Requests in flight, one per broker. */
  readonly requests: number
}

/** Client without a group, for fetches and offset lookups on connections of their own. */
export class KafkaFetcher {
  readonly #consumer: Consumer
  readonly #topic: string
  readonly #settings: FetchSettings
  readonly #size: FetchSize
  readonly #positions = new Map<number, bigint>()
  readonly #inFlight = new Map<number, Promise<{ node: number; fetched: FetchedRecords[] }>>()
  /** Consecutive failures. */
  #failures = 0
  /** Called when unread messages were removed by retention. */
  readonly #onLost: (partition: number, from: bigint, to: bigint) => void

  constructor(client: BaseOptions, topic: string, settings: FetchSettings, onLost: (partition: number, from: bigint, to: bigint) => void) {
    this.#consumer = new Consumer({ ...client, groupId: 'none', autocommit: false })
    this.#consumer.topics.track(topic)
    this.#topic = topic
    this.#settings = settings
    this.#size = new FetchSize(settings.fetchMaxBytes)
    this.#onLost = onLost
  }

  metadata(forceUpdate = false): Promise<ClusterMetadata> {
    return this.#consumer.metadata({ topics: [this.#topic], forceUpdate })
  }

  /** Next offset of a partition; undefined if it is not read. */
  position(partition: number): bigint | undefined {
    return this.#positions.get(partition)
  }

  readFrom(partition: number, offset: bigint): void {
    this.#positions.set(partition, offset)
  }

  forget(partitions: Iterable<number>): void {
    for (const partition of partitions) this.#positions.delete(partition)
  }

  /** Offsets by partition: oldest, end for the isolation level, or first at or after a time (the end if there is none). */
  async offsets(at: 'earliest' | 'latest' | number, partitions?: readonly number[]): Promise<Map<number, bigint>> {
    const only = partitions === undefined ? {} : { partitions: { [this.#topic]: [...partitions] } }
    const list = async (timestamp: bigint) => {
      const answer = await this.#consumer.listOffsetsWithTimestamps({
        topics: [this.#topic],
        timestamp,
        isolationLevel: toIsolationLevel(this.#settings),
        ...only,
      })
      return new Map([...(answer.get(this.#topic) ?? [])].map(([partition, { offset }]) => [partition, offset]))
    }
    if (at === 'earliest') return list(ListOffsetTimestamps.EARLIEST)
    const latest = await list(ListOffsetTimestamps.LATEST)
    if (at === 'latest') return latest
    const offsets = await list(BigInt(at))
    return new Map(
      [...latest].map(([partition, end]) => [partition, (offsets.get(partition) ?? -1n) >= 0n ? offsets.get(partition)! : end]),
    )
  }

  /** Result of the first broker that responds; empty if no broker had messages within the maximum wait. */
  async next(wanted: readonly number[]): Promise<FetchedRecords[]> {
    const metadata = await this.metadata()
    const byNode = this.#byNode(metadata, wanted)
    for (const [node, partitions] of byNode) {
      if (!this.#inFlight.has(node)) this.#inFlight.set(node, this.#begin({ metadata, node, partitions, requests: byNode.size }))
    }
    if (this.#inFlight.size === 0) return []
    const { node, fetched } = await Promise.race(this.#inFlight.values())
    this.#inFlight.delete(node)
    // A partition that was revoked or moved meanwhile is read elsewhere.
    const current = fetched.filter(({ partition, from }) => this.#positions.get(partition) === from)
    for (const { partition, next } of current) this.#positions.set(partition, next)
    return current
  }

  async close(): Promise<void> {
    await this.#consumer.close(true)
    await Promise.allSettled(this.#inFlight.values())
  }

  #byNode(metadata: ClusterMetadata, wanted: readonly number[]): Map<number, number[]> {
    const nodes = new Map<number, number[]>()
    for (const partition of wanted) {
      const leader = metadata.topics.get(this.#topic)?.partitions[partition]?.leader
      if (leader === undefined || !this.#positions.has(partition)) continue
      nodes.set(leader, [...(nodes.get(leader) ?? []), partition])
    }
    return nodes
  }

  /** A request may fail while no caller waits; the next caller gets the error. */
  #begin(plan: FetchPlan): Promise<{ node: number; fetched: FetchedRecords[] }> {
    const fetching = this.#fetch(plan)
    fetching.catch(() => undefined)
    return fetching
  }

  async #fetch({ metadata, node, partitions, requests }: FetchPlan): Promise<{ node: number; fetched: FetchedRecords[] }> {
    const bytesMax = this.#size.bytesToAsk(requests)
    const positions = new Map(partitions.map((partition) => [partition, this.#positions.get(partition)!]))
    try {
      const responses = (await this.#request(metadata, node, positions, bytesMax)).filter(({ partitionIndex }) =>
        positions.has(partitionIndex),
      )
      const isCommittedOnly = this.#settings.isolation === 'committed'
      const toRecords = (each: FetchedPartition): FetchedRecords => {
        const from = positions.get(each.partitionIndex)!
        return { partition: each.partitionIndex, from, ...readRecords(this.#topic, each, from, isCommittedOnly) }
      }
      this.#failures = 0
      const fetched = responses.map(toRecords)
      this.#size.received(
        fetched.reduce((sum, { messages }) => sum + byteSum(messages), 0),
        requests,
      )
      return { node, fetched }
    } catch (thrown) {
      if (findApiIds(thrown).includes('OFFSET_OUT_OF_RANGE')) return { node, fetched: await this.#moveLost(positions) }
      await this.#waitForLeader(thrown)
      return { node, fetched: [] }
    }
  }

  /** The library's fetch drops committed records after aborted ones if a producer aborted more than once. No fetch session, because
   *  sessions belong to the library. */
  async #request(
    metadata: ClusterMetadata,
    node: number,
    asked: ReadonlyMap<number, bigint>,
    bytesMax: number,
  ): Promise<readonly FetchedPartition[]> {
    const { fetchMinBytes, maxPartitionFetchBytes, consumerMaxWaitMs } = this.#settings
    const connection = (await this.#consumer.connectToBrokers([node])).get(node)
    if (connection === undefined) throw new Error(`broker ${node} cannot be reached`)
    const partitions = [...asked].map(([partition, at]) => toPartitionRequest(partition, at, maxPartitionFetchBytes))
    const topics = [{ topicId: metadata.topics.get(this.#topic)!.id, partitions }]
    const limits = [consumerMaxWaitMs, Math.min(fetchMinBytes, bytesMax), bytesMax, toIsolationLevel(this.#settings)] as const
    const answer = await fetchV13.api.async(connection, ...limits, 0, sessionless, topics, [], '')
    return answer.responses.flatMap((each) => each.partitions)
  }

  /** Leaders move and brokers restart: the membership continues unless that takes long. */
  async #waitForLeader(thrown: unknown): Promise<void> {
    const ids = findApiIds(thrown)
    const isMoving =
      ids.some((id) => leaderErrors.has(id)) || toKafkaError(thrown, { topic: this.#topic, doing: 'read' }).type === 'connection_error'
    this.#failures += 1
    if (!isMoving || this.#failures > leaderAttemptsMax) throw thrown
    await new Promise((resolve) => setTimeout(resolve, leaderMs))
    await this.metadata(true)
  }

  /** Only positions outside of the log move; the others stay. */
  async #moveLost(asked: ReadonlyMap<number, bigint>): Promise<FetchedRecords[]> {
    const [starts, ends] = [await this.offsets('earliest', [...asked.keys()]), await this.offsets('latest', [...asked.keys()])]
    return [...asked].flatMap(([partition, at]) => {
      const [from, to] = [starts.get(partition) ?? at, ends.get(partition) ?? at]
      if (at >= from && at <= to) return []
      this.#onLost(partition, at, from)
      return [{ partition, from: at, messages: [], next: from }]
    })
  }
}

const sessionless = -1
const leaderErrors: ReadonlySet<string> = new Set([
  'NOT_LEADER_OR_FOLLOWER',
  'LEADER_NOT_AVAILABLE',
  'FENCED_LEADER_EPOCH',
  'UNKNOWN_LEADER_EPOCH',
  'OFFSET_NOT_AVAILABLE',
  'REPLICA_NOT_AVAILABLE',
  'KAFKA_STORAGE_ERROR',
])
const leaderAttemptsMax = 10
const leaderMs = 300

const toIsolationLevel = ({ isolation }: FetchSettings) =>
  isolation === 'committed' ? FetchIsolationLevels.READ_COMMITTED : FetchIsolationLevels.READ_UNCOMMITTED

/** Without leader epochs: the response says if the leader changed. */
const toPartitionRequest = (partition: number, fetchOffset: bigint, partitionMaxBytes: number) => ({
  partition,
  fetchOffset,
  partitionMaxBytes,
  currentLeaderEpoch: -1,
  lastFetchedEpoch: -1,
})
