// long: a processor, its catalog and its object store are killed twice each while 20,000 messages go from Kafka to an Iceberg table.
import { privateNessie } from '@brokkr/testing/servers/nessie.ts'
import { privateS3 } from '@brokkr/testing/servers/s3.ts'
import { trinoOnNessie } from '@brokkr/testing/servers/trino.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { fill } from '../connectors/test-parts/kafka-topics.ts'
import { lakeConfig, loadState } from '../connectors/test-parts/lake.ts'
import { kafkaSetup } from './test-parts/kafka-setup.ts'
import { startChain } from './test-parts/killed-chain.ts'

const limitMs = 300_000
const kills = size('processor.kills')
const messages = size('processor.messages')

test('[D104] messages from Kafka are in an Iceberg table once each although processor and servers are killed', async () => {
  const { from, source } = await kafkaSetup({ partitions: 3 })
  const s3 = await privateS3()
  const nessie = await privateNessie(s3.address)
  const place = await nessie.namespace()
  const lake = await trinoOnNessie(place)
  await lake.run('create table orders (id bigint, pad varchar)')
  const count = async () => Number((await loadState(place, 'orders')).snapshots.at(-1)?.summary['total-records'] ?? 0)
  const sink = { type: 'nessie', config: lakeConfig(place, { table: 'orders', batchSize: 500, batchFlushIntervalSeconds: 0.2 }) }
  const chain = await startChain('orders', { source, sink }, count, limitMs)
  const rounds = 2 * kills
  const part = Math.ceil(messages / rounds)
  for (let round = 0; round < rounds; round += 1) {
    const before = await chain.progress()
    const ids = Array.from({ length: Math.min(part, messages - round * part) }, (_, index) => round * part + index)
    await fill(
      from,
      ids.map((id) => ({ key: String(id), value: JSON.stringify({ id, pad: 'x'.repeat(100) }) })),
    )
    await chain.passes(before)
    if (round % 2 === 0) await chain.kill()
    else {
      await Promise.all([nessie.kill('SIGKILL'), s3.kill('SIGKILL')])
      await Promise.all([nessie.start(), s3.start()])
    }
  }
  await waitFor('all rows', async () => (await count()) >= messages, { limitMs, onTimeout: () => chain.state() })
  expect(await chain.stop()).toBe(0)
  expect(await lake.run('select count(*), count(distinct id), min(id), max(id) from orders')).toEqual([
    [messages, messages, 0, messages - 1],
  ])
}, 900_000)
