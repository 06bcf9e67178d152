// Many agents: what an idle stream costs, everybody at once without and with a cursor, and what the
// feed costs those who write.
import { type Fleet, fill } from '../broker/fill.ts'
import { cpuNsOf } from '../cpu.ts'
import { percentile, residentMib, tell } from '../figures.ts'
import { type Bench, channel, scaled, startReaders, startWriter } from './parts.ts'

const bare = (agents: Fleet['agents']) => agents.map(({ id, pak }) => ({ id, pak }))

/** [S14] Memory and CPU of idle streams; everybody without a cursor, then everybody with one. */
export async function idle({ postgres, ours }: Bench): Promise<void> {
  const database = await postgres.database()
  const broker = await ours.start(database.url)
  const agents = scaled(10_000)
  const fleet = await fill(database.url, ours.encryptionKey, {
    agents,
    stacksPerAgent: 20,
    objectsPerStack: 1,
    otherStacks: 0,
    objectBytes: 500,
  })
  // Agents send heartbeats, else they count as gone after 45 s; here they are noted without the broker, so that its CPU is that of the streams.
  const client = await database.connect()
  const heartbeats = setInterval(() => void client.query('update agent_liveness set last_seen_at = now()'), 10_000)
  const emptyMib = residentMib(broker.pid)
  let peakMib = 0
  const watching = setInterval(() => (peakMib = Math.max(peakMib, residentMib(broker.pid))), 50)
  const readers = await startReaders({ port: broker.port, agents: bare(fleet.agents), pollMs: null })
  tell(
    `[S14] ${agents} agents without cursor at once`,
    `all synced after ${(readers.synced.syncedMs / 1000).toFixed(1)} s · ${readers.synced.puts} stacks · peak ${peakMib.toFixed(0)} MiB (bar 512)`,
  )
  await new Promise((resolve) => setTimeout(resolve, 20_000))
  const before = cpuNsOf(broker.pid)
  await new Promise((resolve) => setTimeout(resolve, 30_000))
  const share = (cpuNsOf(broker.pid) - before) / 30e9
  tell(
    `${agents} idle streams of 20 stacks`,
    `${(((residentMib(broker.pid) - emptyMib) * 1024) / agents).toFixed(1)} KiB each (bar 20) · ${(share * 100).toFixed(1)} % of a core (bar 4)`,
  )
  clearInterval(heartbeats)
  await client.end()
  const { cursors } = await readers.report()
  await readers.quit()
  const again = await startReaders({
    port: broker.port,
    agents: fleet.agents.map(({ id, pak }) => ({ id, pak, cursor: cursors[id]! })),
    pollMs: null,
  })
  tell(
    `${agents} agents resume`,
    `all live after ${(again.synced.syncedMs / 1000).toFixed(1)} s · snapshots ${again.synced.snapshots} (bar 0)`,
  )
  clearInterval(watching)
  await again.quit()
  await broker.kill()
}

/** `told`: as the broker does it where there is another one. */
const states = ['on', 'told', 'off'] as const
type State = (typeof states)[number]

/** [S4] The same writes with the feed's triggers, without, and beside another broker, which is told of every few of them by NOTIFY. */
export async function writes({ postgres, ours }: Bench): Promise<void> {
  const database = await postgres.database()
  const broker = await ours.start(database.url)
  const fleet = await fill(database.url, ours.encryptionKey, {
    agents: 50,
    stacksPerAgent: 20,
    objectsPerStack: 1,
    otherStacks: 0,
    objectBytes: 500,
  })
  await broker.kill()
  const client = await database.connect()
  const order = {
    databaseUrl: database.url,
    encryptionKey: ours.encryptionKey,
    stackIds: fleet.agents.flatMap(({ stackIds }) => stackIds),
    perSecond: null,
    seconds: 1,
    connections: 16,
  }
  const writer = startWriter()
  const rateWith = async (state: State, by: 'action' | 'statement'): Promise<number> => {
    const word = state === 'off' ? 'disable' : 'enable'
    await client.query(`alter table stacks ${word} trigger feed_update; alter table deployment_objects ${word} trigger feed_insert`)
    const { commits, seconds } = await writer.write({ ...order, by, channel: state === 'told' ? channel : null })
    return commits.length / seconds
  }
  for (const by of ['action', 'statement'] as const) {
    const rates: Record<State, number[]> = { on: [], off: [], told: [] }
    for (const state of states) await rateWith(state, by)
    // Many short turns, each as often before the others as behind them: the machine's own ups and downs last for seconds.
    for (let turn = 0; turn < 40; turn += 1)
      for (const state of turn % 2 === 0 ? states : states.toReversed()) rates[state].push(await rateWith(state, by))
    const name = by === 'action' ? 'submissions as the broker does them' : 'one bare statement'
    for (const state of ['on', 'told'] as const) {
      const [rate, without] = [percentile(rates[state], 0.5), percentile(rates.off, 0.5)]
      const turns = rates[state].map((each, turn) => each / rates.off[turn]!)
      tell(
        `[S4] writes with the feed on / off, ${name}${state === 'told' ? ', beside another broker' : ' (bar 0.9)'}`,
        `${(rate / without).toFixed(2)} (${rate.toFixed(0)}/s, ${without.toFixed(0)}/s) · turn by turn ${percentile(turns, 0.25).toFixed(2)} to ${percentile(turns, 0.75).toFixed(2)}, median ${percentile(turns, 0.5).toFixed(2)}`,
      )
    }
  }
  await writer.quit()
  await client.end()
}
