// Dead letters in a topic: read by the replay's own consumer group, whose offsets mark replayed dead letters.
import type { KafkaSink, KafkaSource } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import type { Batch, Budget, Message, Partition, Positions, Source } from '../../connectors/connector.ts'
import { getPayload, newMessage, workingCopy } from '../../message/message.ts'
import { InvalidStart } from '../config.ts'
import type { InFlightDeadLetters } from './in-flight-dead-letters.ts'
import { isSelected, parseDeadLetter, type Selection, toMessageContent } from './stored-dead-letter.ts'

/** Source configuration for the topic that the errors sink writes. */
export function toDeadLetterTopicConfig(sink: KafkaSink, consumerGroup: string): KafkaSource {
  if (sink.format !== 'json') throw new InvalidStart('letters in Avro cannot be replayed')
  const { brokers, topic, securityProtocol, tls, sasl } = sink
  return {
    brokers,
    topic,
    securityProtocol,
    tls,
    sasl,
    consumerGroup,
    format: 'json',
    avroSchema: undefined,
    avroSchemaFile: undefined,
    schemaRegistry: undefined,
    avroUnions: 'unwrap',
    startOffset: 'earliest',
    isolation: 'committed',
    fetchMinBytes: 1,
    fetchMaxBytes: 8 << 20,
    maxPartitionFetchBytes: 1 << 20,
    consumerMaxWaitMs: 500,
    netReadTimeoutMs: 30_000,
    netWriteTimeoutMs: 30_000,
  }
}

/** The same source; its messages contain what failed. */
export function createDeadLetterTopic(inner: Source, book: InFlightDeadLetters, selection: Selection): Source {
  const counter = { count: 0 }
  const reader = new DeadLetterReader(book, selection, counter)
  const read = inner.read.bind(inner)
  const commit = inner.commit.bind(inner)
  return Object.assign(inner, {
    read: async function* (budget: Budget): AsyncGenerator<Batch> {
      for await (const { messages } of read(budget)) {
        const letters = reader.select(messages)
        if (letters.length > 0) yield { messages: letters }
        if (reader.isEnough) return
      }
    },
    commit: async (upTo: Positions): Promise<void> => {
      await commit(upTo)
      book.forget(upTo, (left, right) => inner.compare(left, right))
    },
  })
}

class DeadLetterReader {
  readonly #book: InFlightDeadLetters
  readonly #selection: Selection
  readonly #taken: { count: number }
  /** The first dead letter outside the selection ends its partition; later ones are left for another replay. */
  readonly #ended = new Set<Partition>()

  constructor(book: InFlightDeadLetters, selection: Selection, taken: { count: number }) {
    this.#book = book
    this.#selection = selection
    this.#taken = taken
  }

  get isEnough(): boolean {
    const { max } = this.#selection
    return max !== undefined && this.#taken.count >= max
  }

  select(messages: readonly Message[]): Message[] {
    const letters: Message[] = []
    for (const message of messages) {
      if (this.isEnough || this.#ended.has(message.partition)) break
      const selected = this.#read(message)
      if (selected === undefined) this.#ended.add(message.partition)
      else letters.push(selected)
    }
    return letters
  }

  /** A message that is no dead letter of this flow passes unchanged: the chain drops it, and the group commits past it. */
  #read(message: Message): Message | undefined {
    const letter = parseDeadLetter(getPayload(workingCopy(message)))
    if (letter === undefined) return message
    if (!isSelected(letter, { toMs: this.#selection.toMs })) return undefined
    if (!isSelected(letter, this.#selection)) return message
    this.#book.note(message, letter)
    this.#taken.count += 1
    const { position, partition, bytes } = message
    return newMessage({ ...toMessageContent(letter), position, partition, bytes })
  }
}
