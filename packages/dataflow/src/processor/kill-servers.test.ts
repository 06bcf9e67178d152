// Three flows at work while everything around and in them is killed: processors, the Kafka and the PostgreSQL they read from and write to.
// Nothing is lost; nothing is twice where that is promised; elsewhere repeats are counted and bounded.
import { privateKafka, uniqueName } from '@brokkr/testing/servers/kafka.ts'
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { committed, drain, fill, makeTopic } from '../connectors/test-parts/kafka-topics.ts'
import { type KilledChain, startChain } from './test-parts/killed-chain.ts'

const limitMs = 300_000
const allMs = 900_000
const timeoutMs = 7_200_000
const kills = size('processor.kills')
const messages = size('processor.messages')
/** The work comes in parts, two a round, so that there is some under way at every kill. */
const parts = 2 * kills
/** There from the start: a long way to read for the orders; of the captured rows as many as a snapshot reads between two kills, since
 *  one that is killed begins anew. */
const [ordersFirst, rowsFirst] = [messages / 2, messages / 20]
const [ordersAPart, rowsAPart] = [(messages - ordersFirst) / parts, (messages - rowsFirst) / parts]
const confirmedPosition = `select pg_wal_lsn_diff(confirmed_flush_lsn, '0/0') as at from pg_replication_slots where slot_name = 'changes'`
type Query = <T extends object>(text: string) => Promise<T[]>

test(
  'flows survive kills of processors, Kafka and PostgreSQL with their guarantees',
  async () => {
    const [kafka, postgres] = [await privateKafka(), await privatePostgres({ fsync: true })]
    const broker = kafka.address.plaintext
    const database = await postgres.database()
    const query: Query = async <T extends object>(text: string) => {
      const client = await database.connect()
      try {
        return (await client.query<T>(text)).rows
      } finally {
        await client.end()
      }
    }
    await query('create table target (id int primary key, pad text); create table captured (id int primary key, version int)')
    await query(`insert into captured select id, 0 from generate_series(0, ${rowsFirst - 1}) id`)
    const topic = (partitions = 3) => makeTopic({ partitions, brokers: broker })
    const [orders, copies, changes] = [await topic(), await topic(), await topic(1)]
    for (let at = 0; at < ordersFirst; at += 10_000) await fill(orders, numbered(at, 10_000), broker)

    const kafkaPart = (name: string, more: object = {}) => ({ type: 'kafka', config: { brokers: [broker], topic: name, ...more } })
    const [groupA, groupB] = [uniqueName('a'), uniqueName('b')]
    const offsets = async (group: string) => Object.values(await committed(group, orders, broker)).reduce((sum, offset) => sum + offset, 0)
    const table = { type: 'postgresql', config: { connectionString: database.url, table: 'target', upsertMode: true, batchSize: 100 } }
    const slot = { connectionString: database.url, tables: ['public.captured'], slotName: 'changes' }
    const upserts = await startChain(
      'upserts',
      { source: kafkaPart(orders, { consumerGroup: groupA }), sink: table },
      async () => Number((await query<{ n: string }>('select count(*) n from target'))[0]!.n),
      limitMs,
    )
    const transactions = await startChain(
      'transactions',
      { source: kafkaPart(orders, { consumerGroup: groupB }), sink: kafkaPart(copies, { exactlyOnce: 'required', batchSize: 500 }) },
      () => offsets(groupB),
      limitMs,
    )
    const captures = await startChain(
      'changes',
      { source: { type: 'postgresql-cdc', config: slot }, sink: kafkaPart(changes, { batchSize: 100 }) },
      // The confirmed position, not the length of the topic: repeats make the topic longer without progress, so a slow machine would
      // kill the flow before it confirmed anything and repeat the same changes at every kill.
      async () => Number((await query<{ at: string }>(confirmedPosition))[0]?.at ?? 0),
      limitMs,
    )
    const chains = [upserts, transactions, captures] as const

    let [given, written] = [0, Promise.resolve()]
    const giveWork = async () => {
      const part = given
      given += 1
      written = written.then(() => writeChanges(query, rowsFirst + part * rowsAPart, rowsAPart))
      await fill(orders, numbered(ordersFirst + part * ordersAPart, ordersAPart), broker)
    }
    const killKafka = async () => {
      await kafka.kill('SIGKILL')
      await kafka.start()
    }
    const killPostgres = async () => {
      await postgres.kill('SIGKILL')
      // Its lock file counts until the system has taken the dead process off its list.
      await waitFor('PostgreSQL again', () => postgres.restart().then(() => true), { limitMs })
    }
    for (let round = 0; round < kills; round += 1) {
      const startedMs = performance.now()
      const before = await Promise.all(chains.map((chain) => chain.progress()))
      await giveWork()
      for (const [at, chain] of chains.entries()) {
        await chain.passes(before[at]!)
        await chain.kill()
      }
      // The servers die while one of the flows is at work, each of them in its turn.
      const busy = chains[round % chains.length]!
      const reached = await busy.progress()
      await giveWork()
      await busy.passes(reached)
      for (const kill of round % 2 === 0 ? [killKafka, killPostgres] : [killPostgres, killKafka]) await kill()
      process.stdout.write(await roundText(round, performance.now() - startedMs, chains))
    }
    await written
    const [{ end }] = (await query<{ end: string }>('select pg_current_wal_lsn()::text as end')) as [{ end: string }]
    const arrived = async (chain: KilledChain, isDone: () => Promise<boolean>) =>
      waitFor(`everything of ${chain.name}`, isDone, { limitMs: allMs, everyMs: 1_000, onTimeout: () => chain.state() })
    await arrived(upserts, async () => (await upserts.progress()) >= messages)
    await arrived(transactions, async () => (await offsets(groupB)) >= messages)
    const confirmed = `select 1 from pg_replication_slots where slot_name = 'changes' and confirmed_flush_lsn >= '${end}'`
    await arrived(captures, async () => (await query(confirmed)).length === 1)
    await waitFor('all offsets', async () => (await offsets(groupA)) === messages, { limitMs, onTimeout: () => upserts.state() })
    for (const chain of chains) expect(await chain.stop()).toBe(0)

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

const numbered = (from: number, count: number) =>
  Array.from({ length: count }, (_, at) => ({ key: String(from + at), value: JSON.stringify({ id: from + at, pad: 'x'.repeat(100) }) }))

async function roundText(round: number, tookMs: number, chains: readonly KilledChain[]): Promise<string> {
  const reached = await Promise.all(chains.map(async (chain) => `${chain.name} ${await chain.progress()}`))
  return `round ${round + 1} of ${kills}: ${(tookMs / 1000).toFixed(1)} s; ${reached.join(', ')} of ${messages}\n`
}

/** Transactions of different sizes; a server that is away is waited for. */
async function writeChanges(query: Query, from: number, count: number): Promise<void> {
  let at = from
  for (let step = 1; at < from + count; step += 1) {
    const rows = Math.min(from + count - at, (step % 7) * 40 + 1)
    const isIn = async () => {
      await query(`insert into captured select id, ${step} from generate_series(${at}, ${at + rows - 1}) id on conflict do nothing`)
      return true
    }
    await waitFor('the database', isIn, { limitMs: 600_000 })
    at += rows
  }
}
