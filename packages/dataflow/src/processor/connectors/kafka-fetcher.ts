// Fetches the partitions that are ours: one request per broker in the air, positions kept here, a position that retention removed
// told and moved to the oldest message there is.
import { type BaseOptions, type ClusterMetadata, Consumer, FetchIsolationLevels, fetchV13, ListOffsetTimestamps } from '@platformatic/kafka'
import { apiIdsOf, kafkaError } from './kafka-errors.ts'
import { type FetchedPartition, type ReadRecords, readRecords } from './kafka-records.ts'

export interface FetchSettings {
  readonly isolation: 'committed' | 'uncommitted'
  readonly fetchMinBytes: number
  readonly fetchMaxBytes: number
  readonly maxPartitionFetchBytes: number
  readonly consumerMaxWaitMs: number
}
export interface FetchedRecords extends ReadRecords {
  readonly partition: number
  /** Where the fetch began. */
  readonly from: bigint
}

/** No member of any group: fetches and looks at offsets alone, on connections that nothing else waits for. */
export class KafkaFetcher {
  readonly #consumer: Consumer
  readonly #topic: string
  readonly #settings: FetchSettings
  readonly #positions = new Map<number, bigint>()
  readonly #inFlight = new Map<number, Promise<{ node: number; fetched: FetchedRecords[] }>>()
  /** In a row. */
  #failures = 0
  /** Told when messages are gone that nobody read. */
  readonly #onLost: (partition: number, from: bigint, to: bigint) => void

  constructor(client: BaseOptions, topic: string, settings: FetchSettings, onLost: (partition: number, from: bigint, to: bigint) => void) {
    this.#consumer = new Consumer({ ...client, groupId: 'none', autocommit: false })
    this.#consumer.topics.track(topic)
    this.#topic = topic
    this.#settings = settings
    this.#onLost = onLost
  }

  metadata(forceUpdate = false): Promise<ClusterMetadata> {
    return this.#consumer.metadata({ topics: [this.#topic], forceUpdate })
  }

  /** Where the next fetch of a partition begins; undefined when it is not read. */
  position(partition: number): bigint | undefined {
    return this.#positions.get(partition)
  }

  readFrom(partition: number, offset: bigint): void {
    this.#positions.set(partition, offset)
  }

  forget(partitions: Iterable<number>): void {
    for (const partition of partitions) this.#positions.delete(partition)
  }

  /** Offsets by partition: the oldest, the end as the isolation sees it, or the first at or after a time (the end if there is none). */
  async offsets(at: 'earliest' | 'latest' | number, partitions?: readonly number[]): Promise<Map<number, bigint>> {
    const only = partitions === undefined ? {} : { partitions: { [this.#topic]: [...partitions] } }
    const list = async (timestamp: bigint) => {
      const answer = await this.#consumer.listOffsetsWithTimestamps({
        topics: [this.#topic],
        timestamp,
        isolationLevel: isolationOf(this.#settings),
        ...only,
      })
      return new Map([...(answer.get(this.#topic) ?? [])].map(([partition, { offset }]) => [partition, offset]))
    }
    if (at === 'earliest') return list(ListOffsetTimestamps.EARLIEST)
    const latest = await list(ListOffsetTimestamps.LATEST)
    if (at === 'latest') return latest
    const found = await list(BigInt(at))
    return new Map([...latest].map(([partition, end]) => [partition, (found.get(partition) ?? -1n) >= 0n ? found.get(partition)! : end]))
  }

  /** What the first broker that answers has for the wanted partitions; empty when none had anything within the longest wait. */
  async next(wanted: readonly number[]): Promise<FetchedRecords[]> {
    const metadata = await this.metadata()
    for (const [node, partitions] of this.#byNode(metadata, wanted)) {
      if (!this.#inFlight.has(node)) this.#inFlight.set(node, this.#begin(metadata, node, partitions))
    }
    if (this.#inFlight.size === 0) return []
    const { node, fetched } = await Promise.race(this.#inFlight.values())
    this.#inFlight.delete(node)
    // A partition that was given back or moved meanwhile is somebody else's, or read from elsewhere.
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

  /** It may fail while nobody waits for it; whoever asks next hears of it. */
  #begin(metadata: ClusterMetadata, node: number, partitions: readonly number[]): Promise<{ node: number; fetched: FetchedRecords[] }> {
    const fetching = this.#fetch(metadata, node, partitions)
    fetching.catch(() => undefined)
    return fetching
  }

  async #fetch(
    metadata: ClusterMetadata,
    node: number,
    partitions: readonly number[],
  ): Promise<{ node: number; fetched: FetchedRecords[] }> {
    const asked = new Map(partitions.map((partition) => [partition, this.#positions.get(partition)!]))
    try {
      const found = (await this.#request(metadata, node, asked)).filter(({ partitionIndex }) => asked.has(partitionIndex))
      const isCommittedOnly = this.#settings.isolation === 'committed'
      const read = (each: FetchedPartition): FetchedRecords => {
        const from = asked.get(each.partitionIndex)!
        return { partition: each.partitionIndex, from, ...readRecords(this.#topic, each, from, isCommittedOnly) }
      }
      this.#failures = 0
      return { node, fetched: found.map(read) }
    } catch (thrown) {
      if (apiIdsOf(thrown).includes('OFFSET_OUT_OF_RANGE')) return { node, fetched: await this.#moveLost(asked) }
      await this.#waitForLeader(thrown)
      return { node, fetched: [] }
    }
  }

  /** The library's own fetch hides committed records behind aborted ones when a producer aborted more than once; without a session,
   *  because those are the library's as well. */
  async #request(metadata: ClusterMetadata, node: number, asked: ReadonlyMap<number, bigint>): Promise<readonly FetchedPartition[]> {
    const { fetchMinBytes, fetchMaxBytes, maxPartitionFetchBytes, consumerMaxWaitMs } = this.#settings
    const connection = (await this.#consumer.connectToBrokers([node])).get(node)
    if (connection === undefined) throw new Error(`broker ${node} cannot be reached`)
    const partitions = [...asked].map(([partition, at]) => request(partition, at, maxPartitionFetchBytes))
    const topics = [{ topicId: metadata.topics.get(this.#topic)!.id, partitions }]
    const limits = [consumerMaxWaitMs, fetchMinBytes, fetchMaxBytes, isolationOf(this.#settings)] as const
    const answer = await fetchV13.api.async(connection, ...limits, 0, sessionless, topics, [], '')
    return answer.responses.flatMap((each) => each.partitions)
  }

  /** Leaders move and brokers restart: membership need not end for that, unless it takes long. */
  async #waitForLeader(thrown: unknown): Promise<void> {
    const ids = apiIdsOf(thrown)
    const isMoving =
      ids.some((id) => leaderErrors.has(id)) || kafkaError(thrown, { topic: this.#topic, doing: 'read' }).type === 'connection_error'
    this.#failures += 1
    if (!isMoving || this.#failures > leaderTries) throw thrown
    await new Promise((resolve) => setTimeout(resolve, leaderMs))
    await this.metadata(true)
  }

  /** Only those that really lie outside; the others keep their place. */
  async #moveLost(asked: ReadonlyMap<number, bigint>): Promise<FetchedRecords[]> {
    const [oldest, ends] = [await this.offsets('earliest', [...asked.keys()]), await this.offsets('latest', [...asked.keys()])]
    return [...asked].flatMap(([partition, at]) => {
      const [from, to] = [oldest.get(partition) ?? at, ends.get(partition) ?? at]
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
const leaderTries = 10
const leaderMs = 300

const isolationOf = ({ isolation }: FetchSettings) =>
  isolation === 'committed' ? FetchIsolationLevels.READ_COMMITTED : FetchIsolationLevels.READ_UNCOMMITTED

/** Without epochs: who leads is told by the answer. */
const request = (partition: number, fetchOffset: bigint, partitionMaxBytes: number) => ({
  partition,
  fetchOffset,
  partitionMaxBytes,
  currentLeaderEpoch: -1,
  lastFetchedEpoch: -1,
})
