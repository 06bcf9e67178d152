// Letters in a topic: read as a member of the replay's own group, whose offsets are the marks of what is done.
import type { KafkaSink, KafkaSource } from '@brokkr/contract/dataflow/connectors/kafka.ts'
import { BadStart } from '../config.ts'
import type { Batch, Budget, Message, Partition, Positions, Source } from '../connectors/connector.ts'
import { newMessage, payloadOf, workingCopy } from '../message.ts'
import { contentOf, isSelected, readLetter, type Selection } from './letter.ts'
import type { LetterBook } from './letter-book.ts'

/** The place that letters were written to, as a source. */
export function letterTopicConfig(sink: KafkaSink, consumerGroup: string): KafkaSource {
  if (sink.format !== 'json') throw new BadStart('letters in Avro cannot be replayed')
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

/** The same source; what it hands out is what failed. */
export function letterTopic(inner: Source, book: LetterBook, selection: Selection): Source {
  const taken = { count: 0 }
  const opened = new LetterReader(book, selection, taken)
  const read = inner.read.bind(inner)
  const commit = inner.commit.bind(inner)
  return Object.assign(inner, {
    read: async function* (budget: Budget): AsyncGenerator<Batch> {
      for await (const { messages } of read(budget)) {
        const letters = opened.lettersOf(messages)
        if (letters.length > 0) yield { messages: letters }
        if (opened.isEnough) return
      }
    },
    commit: async (upTo: Positions): Promise<void> => {
      await commit(upTo)
      book.forget(upTo, (left, right) => inner.compare(left, right))
    },
  })
}

class LetterReader {
  readonly #book: LetterBook
  readonly #selection: Selection
  readonly #taken: { count: number }
  /** A partition's first letter that is not meant ends it: what lies behind stays for another replay. */
  readonly #ended = new Set<Partition>()

  constructor(book: LetterBook, selection: Selection, taken: { count: number }) {
    this.#book = book
    this.#selection = selection
    this.#taken = taken
  }

  get isEnough(): boolean {
    const { max } = this.#selection
    return max !== undefined && this.#taken.count >= max
  }

  lettersOf(messages: readonly Message[]): Message[] {
    const letters: Message[] = []
    for (const message of messages) {
      if (this.isEnough || this.#ended.has(message.partition)) break
      const read = this.#read(message)
      if (read === undefined) this.#ended.add(message.partition)
      else letters.push(read)
    }
    return letters
  }

  /** What is no letter of ours is handed on as it is: the chain drops it, and the group gets past it. */
  #read(message: Message): Message | undefined {
    const letter = readLetter(payloadOf(workingCopy(message)))
    if (letter === undefined) return message
    if (!isSelected(letter, { toMs: this.#selection.toMs })) return undefined
    if (!isSelected(letter, this.#selection)) return message
    this.#book.note(message, letter)
    this.#taken.count += 1
    const { position, partition, bytes } = message
    return newMessage({ ...contentOf(letter), position, partition, bytes })
  }
}
