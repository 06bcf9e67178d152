// [S2] Commit → agent with many streams and an open-loop writer, beside the bare feed and beside the same fleet polling; then how many
// changes a second each of them carries.
import { type Fleet, fill } from '../broker/fill.ts'
import { readCpuNs } from '../cpu.ts'
import { percentile, tell } from '../figures.ts'
import { type Measured, startBare } from './bare.ts'
import { type Bench, channel, delays, scaled, shown, startReaders, write } from './parts.ts'

export async function latency({ postgres, ours }: Bench): Promise<void> {
  const streams = scaled(5000)
  const perSecond = scaled(1000)
  const database = await postgres.database()
  const first = await ours.start(database.url)
  const fleet = await fill(database.url, ours.encryptionKey, {
    agents: streams,
    stacksPerAgent: 1,
    objectsPerStack: 1,
    otherStacks: 0,
    objectBytes: 500,
  })
  const order = {
    databaseUrl: database.url,
    encryptionKey: ours.encryptionKey,
    stackIds: fleet.agents.flatMap(({ stackIds }) => stackIds),
    connections: 16,
    channel,
  }
  const rates: Record<string, number[]> = {}
  for (let round = 0; round < 3; round += 1) {
    for (const name of ['ours', 'bare'] as const) {
      const measured = name === 'ours' ? { program: first, port: first.port } : await startBare(database.url, ours.encryptionKey)
      const readers = await startReaders({ port: measured.port, agents: fleet.agents.map(({ id, pak }) => ({ id, pak })), pollMs: null })
      await readers.report()
      const cpuBefore = readCpuNs(measured.program.pid)
      const open = await write({ ...order, perSecond, seconds: 15 })
      await settled()
      const seen = delays(open.commits, (await readers.report()).sightings)
      const cpuUs = (readCpuNs(measured.program.pid) - cpuBefore) / 1000 / open.commits.length
      tell(`[S2] ${name}, ${streams} streams, ${perSecond}/s`, `${shown(seen)} · ${cpuUs.toFixed(0)} µs CPU per change`)
      const closed = await write({ ...order, perSecond: null, seconds: 10 })
      await settled()
      const all = delays(closed.commits, (await readers.report()).sightings)
      ;(rates[name] ??= []).push(closed.commits.length / closed.seconds)
      tell(`[S2] ${name}, as fast as 16 writers go`, `${(closed.commits.length / closed.seconds).toFixed(0)}/s · ${shown(all)}`)
      await readers.quit()
      if (name === 'bare') await measured.program.kill()
    }
  }
  tell('changes carried, ours / bare (bar 0.7)', (percentile(rates['ours']!, 0.5) / percentile(rates['bare']!, 0.5)).toFixed(2))
  await polling(fleet, { program: first, port: first.port }, { ...order, perSecond })
  await first.kill()
}

/** What peers do. As many as two cores can serve: the figure is their delay, not their number. */
async function polling(fleet: Fleet, { port }: Measured, order: Omit<Parameters<typeof write>[0], 'seconds'>): Promise<void> {
  const some = fleet.agents.slice(0, scaled(500))
  const readers = await startReaders({ port, agents: some, pollMs: 1000 })
  const stackIds = some.flatMap((agent) => agent.stackIds)
  const written = await write({ ...order, stackIds, perSecond: Math.min(100, order.perSecond ?? 100), seconds: 10 })
  await settled()
  const { sightings, answered, refused } = await readers.report()
  tell(
    `${some.length} agents polling every second`,
    `${shown(delays(written.commits, sightings))} · ${answered} answers · ${refused} refused or cut off`,
  )
  await readers.quit()
}

/** Longer than anything that still comes; what has not come then is missing. */
const settled = () => new Promise((resolve) => setTimeout(resolve, 3000))
