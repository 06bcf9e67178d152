// Many agents: the cost of an idle stream, and all agents connecting at once without and with a cursor.
import { type Fleet, fill } from '../broker/fill.ts'
import { readCpuNs } from '../cpu.ts'
import { residentMib, tell } from '../figures.ts'
import { type Bench, scaled, startReaders } from './parts.ts'

const bare = (agents: Fleet['agents']) => agents.map(({ id, pak }) => ({ id, pak }))

/** [S14] Memory and CPU of idle streams: all agents without a cursor, then all with one. */
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
  const before = readCpuNs(broker.pid)
  await new Promise((resolve) => setTimeout(resolve, 30_000))
  const share = (readCpuNs(broker.pid) - before) / 30e9
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
