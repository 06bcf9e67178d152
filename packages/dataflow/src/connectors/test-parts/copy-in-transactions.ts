// A program of its own, to be killed: copies a topic to another in transactions that hold the offsets, as an exactly-once flow does.
// `copy-in-transactions.ts <brokers> <from> <to> <group>`; prints a line per batch and ends when it has read to the end.
import { writeSync } from 'node:fs'
import { ConnectorError, type Positions } from '../connector.ts'
import { kafkaSink, kafkaSource } from '../kafka/index.ts'
import { sinkConfig, sourceConfig } from './configs.ts'
import { endlessBudget, sinkContext, sourceContext } from './contexts.ts'

const [brokers = '', from = '', to = '', group = ''] = process.argv.slice(2)
const config = sourceConfig('kafka', { brokers: [brokers], topic: from, consumerGroup: group, maxPartitionFetchBytes: 20_000 })
const source = kafkaSource.open(config, sourceContext({ isBounded: true, flowId: 'one' }))
const sink = kafkaSink.open(sinkConfig('kafka', { brokers: [brokers], topic: to, exactlyOnce: 'required' }), sinkContext({ source }))

for (;;) {
  try {
    await source.connect()
    await sink.connect()
    await copy()
    break
  } catch (thrown) {
    if (!(thrown instanceof ConnectorError) || thrown.class !== 'transient') throw thrown
    writeSync(1, `again: ${thrown.message}\n`)
  }
}
await source.close()
await sink.close()
writeSync(1, 'done\n')

async function copy(): Promise<void> {
  for await (const { messages } of source.read(endlessBudget)) {
    const positions: Positions = new Map(messages.map(({ partition, position }) => [partition, position]))
    await sink.write(messages, positions)
    writeSync(1, `wrote ${messages.length}\n`)
  }
}
