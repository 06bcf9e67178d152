// [S4] What the feed costs those who write: the same writes with its triggers and without. Through the API of a broker, which then also reads
// what they left; by the broker's own action, by one writer without a broker; and by the least statement that is a submission. They write
// all the time, and what is compared is switched under them twice a second: the machine's own ups and downs last for seconds. `off`: the
// tables as they are without a feed, where a foreign key asks for the stack of a revision; with the feed its trigger does. `bare`: neither
// of them, which no database should be.
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type Fleet, fill } from '../broker/fill.ts'
import { submit } from '../broker/requests.ts'
import { runLoad } from '../broker/run-load.ts'
import { percentile, tell } from '../figures.ts'
import { type Bench, startWriter, type Writer } from './parts.ts'

type State = 'on' | 'off' | 'bare'
/** Writes as fast as it goes, for so long. */
type Write = (seconds: number) => Promise<unknown>

const size = { agents: 50, stacksPerAgent: 20, objectsPerStack: 1, otherStacks: 0, objectBytes: 500 }
const turns = 80
/** Until those who waited for the switch are through, and everybody has planned anew. */
const settleMs = 100
const turnMs = 400

export async function writes({ postgres, ours }: Bench): Promise<void> {
  const database = await postgres.database()
  const broker = await ours.start(database.url)
  const fleet = await fill(database.url, ours.encryptionKey, size)
  const client = await database.connect()
  const byApi: Write = (seconds) =>
    runLoad({ port: broker.port, seconds, warmUpSeconds: 1, lanes: submit(fleet) }, { server: broker.pid, postgres: postgres.pid })
  const asBroker = ['stacks', 'deployment_objects']
  await compare(client, { name: 'submissions through the API (bar 0.9)', write: byApi, locks: asBroker })
  await broker.kill()
  const writer = startWriter()
  const by = byWriter(writer, { databaseUrl: database.url, encryptionKey: ours.encryptionKey }, fleet)
  await compare(client, { name: 'the action of a submission alone (bar 0.9)', write: by('action'), locks: asBroker })
  await compare(client, { name: 'the same without even the foreign key', write: by('action'), compared: 'bare', locks: asBroker })
  await compare(client, { name: 'one bare statement', write: by('statement'), locks: asBroker.toReversed() })
  await writer.quit()
  await client.end()
}

function byWriter(writer: Writer, to: { databaseUrl: string; encryptionKey: string }, { agents }: Fleet) {
  const stackIds = agents.flatMap((agent) => agent.stackIds)
  return (by: 'action' | 'statement'): Write =>
    (seconds) =>
      writer.write({ ...to, stackIds, perSecond: null, seconds, connections: 16, by, channel: null })
}

interface Compared {
  readonly name: string
  readonly write: Write
  readonly compared?: Exclude<State, 'off'>
  /** The tables in the order in which those who write lock them. */
  readonly locks: readonly string[]
}
async function compare(client: pg.Client, { name, write, compared = 'on', locks }: Compared): Promise<void> {
  const rates: Record<State, number[]> = { on: [], off: [], bare: [] }
  const writing = write((2 * (turns + 4) * (settleMs + turnMs + 50)) / 1000)
  await sleep(2_000)
  for (let turn = 0; turn < turns; turn += 1)
    for (const state of turn % 2 === 0 ? ([compared, 'off'] as const) : (['off', compared] as const)) {
      await turnTo(client, locks, state)
      await sleep(settleMs)
      const before = await written(client)
      await sleep(turnMs)
      const after = await written(client)
      rates[state].push((1000 * (after.count - before.count)) / (after.atMs - before.atMs))
    }
  await turnTo(client, locks, 'on')
  await writing
  const sum = (of: readonly number[]) => of.reduce((all, one) => all + one, 0)
  const quotients = rates[compared].map((rate, turn) => rate / rates.off[turn]!)
  const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => percentile(quotients, share).toFixed(2))
  const mean = (of: readonly number[]) => `${(sum(of) / of.length).toFixed(0)}/s`
  tell(
    `[S4] feed ${compared === 'bare' ? 'off' : 'on'} / off, ${name}`,
    `${(sum(rates[compared]) / sum(rates.off)).toFixed(3)} (${mean(rates[compared])}, ${mean(rates.off)}) · turn by turn ${low} to ${high}, median ${middle}`,
  )
}

async function turnTo(client: pg.Client, locks: Compared['locks'], state: State): Promise<void> {
  const word = state === 'on' ? 'enable' : 'disable'
  // Not valid: new rows are checked, and those that are there are not read for it.
  const key = 'alter table deployment_objects add constraint plain_stack foreign key (stack_id) references stacks not valid'
  await client.query(`begin; ${locks.map((table) => `lock table ${table};`).join(' ')}
    alter table stacks ${word} trigger feed_update; alter table stacks ${word} trigger feed_number;
    alter table deployment_objects ${word} trigger feed_insert;
    alter table deployment_objects drop constraint if exists plain_stack; ${state === 'off' ? `${key};` : ''} commit`)
}

async function written(client: pg.Client): Promise<{ count: number; atMs: number }> {
  const { rows } = await client.query<{ n: string }>('select sum(last_sequence) as n from stacks')
  return { count: Number(rows[0]!.n), atMs: performance.now() }
}
