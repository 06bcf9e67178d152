// Three flows at work while everything around and in them is killed: processors, the Kafka and the PostgreSQL they read from and write to.
// Nothing is lost; nothing is twice where that is promised; elsewhere repeats are counted and bounded.
import { privateKafka, uniqueName } from '@brokkr/testing/kafka.ts'
import { privatePostgres } from '@brokkr/testing/postgres.ts'
import { askServers } from '@brokkr/testing/servers-client.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { committed, drain, fill, makeTopic } from './connectors/test-parts/kafka-topics.ts'
import { type RealProcessor, startProcessor } from './test-parts/real-flow.ts'

const limits = { limitMs: 900_000 }
const timeoutMs = 7_200_000
const kills = size('processor.kills')
const messages = size('processor.messages')

interface Chain {
  readonly name: string
  readonly spec: Record<string, unknown>
  readonly folder: string
  processor: RealProcessor
  /** Messages that have surely arrived. */
  progress(): Promise<number>
}

test(
  'processors, Kafka and PostgreSQL are killed in turn: upserts and transactions hold each message once, captured changes at least once',
  async () => {
    const [kafka, postgres] = [await privateKafka(), await privatePostgres({ fsync: true })]
    const broker = kafka.address.plaintext
    const database = await postgres.database()
    const query = async <T extends object>(text: string): Promise<T[]> => {
      const client = await database.connect()
      try {
        return (await client.query<T>(text)).rows
      } finally {
        await client.end()
      }
    }
    await query('create table target (id int primary key, pad text); create table captured (id int primary key, version int)')
    await query(`insert into captured select id, 0 from generate_series(0, ${messages / 2 - 1}) id`)
    const topic = (partitions = 3) => makeTopic({ partitions, brokers: broker })
    const [orders, copies, changes] = [await topic(), await topic(), await topic(1)]
    for (let at = 0; at < messages; at += 10_000)
      await fill(
        orders,
        Array.from({ length: 10_000 }, (_, one) => ({
          key: String(at + one),
          value: JSON.stringify({ id: at + one, pad: 'x'.repeat(100) }),
        })),
        broker,
      )

    const kafkaPart = (name: string, more: object = {}) => ({ type: 'kafka', config: { brokers: [broker], topic: name, ...more } })
    const [groupA, groupB] = [uniqueName('a'), uniqueName('b')]
    const offsets = async (group: string) => Object.values(await committed(group, orders, broker)).reduce((sum, offset) => sum + offset, 0)
    const start = async (name: string, spec: Record<string, unknown>, progress: () => Promise<number>): Promise<Chain> => {
      const folder = await askServers('loan.folder', { kind: 'plain' })
      return { name, spec, folder, progress, processor: await startProcessor(spec, { folder, name }) }
    }
    const chains = [
      await start(
        'upserts',
        {
          source: kafkaPart(orders, { consumerGroup: groupA }),
          sink: { type: 'postgresql', config: { connectionString: database.url, table: 'target', upsertMode: true, batchSize: 100 } },
        },
        async () => Number((await query<{ n: string }>('select count(*) n from target'))[0]!.n),
      ),
      await start(
        'transactions',
        { source: kafkaPart(orders, { consumerGroup: groupB }), sink: kafkaPart(copies, { exactlyOnce: 'required', batchSize: 100 }) },
        () => offsets(groupB),
      ),
      await start(
        'changes',
        {
          source: { type: 'postgresql-cdc', config: { connectionString: database.url, tables: ['public.captured'], slotName: 'changes' } },
          sink: kafkaPart(changes, { batchSize: 100 }),
        },
        async () => (await drain(changes, { brokers: broker })).length,
      ),
    ]
    // The second half of the captured rows comes while everything is being killed.
    const writing = writeChanges(query, messages / 2)

    for (let round = 0; round < kills; round += 1) {
      for (const chain of chains) {
        const before = await chain.progress()
        await waitFor(`progress of ${chain.name}`, async () => (await chain.progress()) > before || before >= messages, {
          ...limits,
          onTimeout: () => chain.processor.logTail(30),
        })
        await chain.processor.kill('SIGKILL')
        chain.processor = await startProcessor(chain.spec, { folder: chain.folder, name: chain.name })
      }
      await kafka.kill('SIGKILL')
      await kafka.start()
      await postgres.kill('SIGKILL')
      // Its lock file counts until the system has taken the dead process off its list.
      await waitFor('PostgreSQL again', () => postgres.restart().then(() => true), limits)
    }
    await writing
    for (const chain of chains)
      await waitFor(`everything of ${chain.name}`, async () => (await chain.progress()) >= messages, {
        ...limits,
        everyMs: 1_000,
        onTimeout: async () => `${await chain.progress()} of ${messages}\n${chain.processor.logTail(30)}`,
      })
    await waitFor('all offsets', async () => (await offsets(groupA)) === messages, limits)
    for (const { processor } of chains) expect(await processor.stop()).toBe(0)

    expect(
      await query('select count(*)::int as all, count(distinct id)::int as ids, min(id) as first, max(id) as last from target'),
    ).toEqual([{ all: messages, ids: messages, first: 0, last: messages - 1 }])
    const copied = (await drain(copies, { brokers: broker })).map(({ key }) => Number(key))
    expect([copied.length, new Set(copied).size]).toEqual([messages, messages])
    const changed = (await drain(changes, { brokers: broker })).map(({ value }) => (JSON.parse(value!) as { id: number }).id)
    expect(new Set(changed).size).toBe(messages)
    // Each kill may repeat what was under way: read, not yet confirmed.
    expect(changed.length - messages).toBeLessThan(kills * 3 * 10_000)
    process.stdout.write(`captured changes: ${changed.length - messages} repeats after ${kills * 3} kills\n`)
  },
  timeoutMs,
)

/** Transactions of different sizes; a server that is away is waited for. */
async function writeChanges(query: (text: string) => Promise<object[]>, count: number): Promise<void> {
  let at = count
  for (let step = 1; at < 2 * count; step += 1) {
    const rows = Math.min(2 * count - at, (step % 7) * 40 + 1)
    const isIn = async () => {
      await query(`insert into captured select id, ${step} from generate_series(${at}, ${at + rows - 1}) id on conflict do nothing`)
      return true
    }
    await waitFor('the database', isIn, { limitMs: 600_000 })
    at += rows
  }
}
