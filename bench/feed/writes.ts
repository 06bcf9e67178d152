// [S4] What the feed costs those who write: the same writes with it and without. Through the API of a broker, which then also reads what
// they left; by the broker's own action, by one writer without a broker; and by the least statement that is a submission. They write all the
// time, and what is compared is switched under them twice a second: the machine's own ups and downs last for seconds. `off`: the same tables
// with nothing of the feed and nothing in its place: no trigger, and the index that only the feed reads is not written, nor is the transaction
// that it is by. `keyed`: a foreign key in place of the trigger that asks for the stack of a revision, as tables without a feed would have it.
import { setTimeout as sleep } from 'node:timers/promises'
import type pg from 'pg'
import { type Fleet, fill } from '../broker/fill.ts'
import { submit } from '../broker/requests.ts'
import { runLoad } from '../broker/run-load.ts'
import { percentile, tell } from '../figures.ts'
import { type Bench, scaled, startWriter, type Writer } from './parts.ts'

type State = 'on' | 'off' | 'keyed'
/** Writes as fast as it goes, for so long. */
type Write = (seconds: number) => Promise<unknown>

const size = { agents: 50, stacksPerAgent: 20, objectsPerStack: 1, otherStacks: 0, objectBytes: 500 }
const turns = scaled(80)
/** Time until waiting statements have ended after the switch and all connections have planned again. */
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
  await compare(client, { name: 'the same beside a foreign key', write: by('action'), against: 'keyed', locks: asBroker })
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
  /** What the writes with the feed are compared with. */
  readonly against?: Exclude<State, 'on'>
  /** The tables in the order in which those who write lock them. */
  readonly locks: readonly string[]
}
async function compare(client: pg.Client, { name, write, against = 'off', locks }: Compared): Promise<void> {
  const rates: Record<State, number[]> = { on: [], off: [], keyed: [] }
  const writing = write((2 * (turns + 4) * (settleMs + turnMs + 50)) / 1000)
  await sleep(2_000)
  for (let turn = 0; turn < turns; turn += 1)
    for (const state of turn % 2 === 0 ? (['on', against] as const) : ([against, 'on'] as const)) {
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
  const quotients = rates.on.map((rate, turn) => rate / rates[against][turn]!)
  const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => percentile(quotients, share).toFixed(2))
  const mean = (of: readonly number[]) => `${(sum(of) / of.length).toFixed(0)}/s`
  tell(
    `[S4] feed on / ${against}, ${name}`,
    `${(sum(rates.on) / sum(rates[against])).toFixed(3)} (${mean(rates.on)}, ${mean(rates[against])}) · turn by turn ${low} to ${high}, median ${middle}`,
  )
}

/** An index that is not ready is not written: dropped and made anew each time it would be read whole twice a second, which is not what is
 *  measured. What it then lacks are rows that no reader of this benchmark asks for. */
async function turnTo(client: pg.Client, locks: Compared['locks'], state: State): Promise<void> {
  const isOn = state === 'on'
  const word = isOn ? 'enable' : 'disable'
  // Not valid: new rows are checked, and those that are there are not read for it.
  const key = 'alter table deployment_objects add constraint plain_stack foreign key (stack_id) references stacks not valid'
  await client.query(`begin; ${locks.map((table) => `lock table ${table};`).join(' ')}
    alter table stacks ${word} trigger feed_update; alter table stacks ${word} trigger feed_number;
    alter table deployment_objects ${word} trigger feed_insert;
    alter table deployment_objects alter column xid set default ${isOn ? 'pg_current_xact_id()' : `'0'::xid8`};
    update pg_index set indisready = ${isOn} where indexrelid = 'deployment_objects_by_xid'::regclass;
    alter table deployment_objects drop constraint if exists plain_stack; ${state === 'keyed' ? `${key};` : ''} commit`)
}

async function written(client: pg.Client): Promise<{ count: number; atMs: number }> {
  const { rows } = await client.query<{ n: string }>('select sum(last_sequence) as n from stacks')
  return { count: Number(rows[0]!.n), atMs: performance.now() }
}
