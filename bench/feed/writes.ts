// [S4] What the feed costs those who write: the same writes with its triggers and without. Through the API of a broker, which then also reads
// what they left; by the broker's own action, by one writer without a broker; and by the least statement that is a submission. `told`:
// beside another broker, which hears of every few of them by NOTIFY. `off`: the tables as they are without a feed, where a foreign key asks
// for the stack of a revision; with the feed its trigger does. `bare`: neither of them, which no database should be.
import type pg from 'pg'
import { type Fleet, fill } from '../broker/fill.ts'
import { submit } from '../broker/requests.ts'
import { runLoad } from '../broker/run-load.ts'
import { percentile, tell } from '../figures.ts'
import { type Bench, channel, startWriter, type Writer } from './parts.ts'

type State = 'on' | 'told' | 'off' | 'bare'
/** Writes for a second; how many of them per second. */
type Write = (state: State) => Promise<number>

const size = { agents: 50, stacksPerAgent: 20, objectsPerStack: 1, otherStacks: 0, objectBytes: 500 }

export async function writes({ postgres, ours }: Bench): Promise<void> {
  const database = await postgres.database()
  const broker = await ours.start(database.url)
  const fleet = await fill(database.url, ours.encryptionKey, size)
  const client = await database.connect()
  const byApi: Write = async () => {
    const order = { port: broker.port, seconds: 1, warmUpSeconds: 0.3, lanes: submit(fleet) }
    return (await runLoad(order, { server: broker.pid, postgres: postgres.pid })).perSecond
  }
  const measure = (name: string, write: Write, state: Exclude<State, 'off'> = 'on', turns = 40) =>
    compare(client, { name, write, state, turns })
  await measure('submissions through the API (bar 0.9)', byApi)
  await broker.kill()
  const writer = startWriter()
  const by = byWriter(writer, { databaseUrl: database.url, encryptionKey: ours.encryptionKey }, fleet)
  await measure('the action of a submission alone', by('action'))
  await measure('the same beside another broker', by('action'), 'told', 20)
  await measure('the same with no feed and no foreign key', by('action'), 'bare', 20)
  await measure('one bare statement', by('statement'))
  await writer.quit()
  await client.end()
}

function byWriter(writer: Writer, to: { databaseUrl: string; encryptionKey: string }, { agents }: Fleet) {
  const stackIds = agents.flatMap((agent) => agent.stackIds)
  return (by: 'action' | 'statement'): Write =>
    async (state) => {
      const order = { ...to, stackIds, perSecond: null, seconds: 1, connections: 16, by, channel: state === 'told' ? channel : null }
      const { commits, seconds } = await writer.write(order)
      return commits.length / seconds
    }
}

interface Compared {
  readonly name: string
  readonly write: Write
  readonly state: Exclude<State, 'off'>
  readonly turns: number
}
async function compare(client: pg.Client, { name, write, state: compared, turns }: Compared): Promise<void> {
  const rateWith = async (state: State): Promise<number> => {
    const word = state === 'off' || state === 'bare' ? 'disable' : 'enable'
    await client.query(`alter table stacks ${word} trigger feed_update; alter table deployment_objects ${word} trigger feed_insert`)
    await client.query('alter table deployment_objects drop constraint if exists plain_stack')
    // Not valid: new rows are checked, and those that are there are not read for it.
    if (state === 'off')
      await client.query('alter table deployment_objects add constraint plain_stack foreign key (stack_id) references stacks not valid')
    return write(state)
  }
  const rates: Record<State, number[]> = { on: [], off: [], told: [], bare: [] }
  const states = [compared, 'off'] as const
  for (const state of states) await rateWith(state)
  // Many short turns side by side, each as often before the other as behind it: the machine's own ups and downs last for seconds.
  for (let turn = 0; turn < turns; turn += 1)
    for (const state of turn % 2 === 0 ? states : states.toReversed()) rates[state].push(await rateWith(state))
  const [rate, without] = states.map((state) => percentile(rates[state], 0.5)) as [number, number]
  const quotients = rates[compared].map((each, turn) => each / rates.off[turn]!)
  const [low, middle, high] = [0.25, 0.5, 0.75].map((share) => percentile(quotients, share).toFixed(2))
  tell(
    `[S4] feed ${compared === 'bare' ? 'off' : 'on'} / off, ${name}`,
    `${(rate / without).toFixed(2)} (${rate.toFixed(0)}/s, ${without.toFixed(0)}/s) · turn by turn ${low} to ${high}, median ${middle}`,
  )
}
