// One stack that all agents follow: frames per second of the process's own CPU, ours and the bare feed's on the same sockets in turn.
import { fill } from '../broker/fill.ts'
import { readCpuNs } from '../cpu.ts'
import { percentile, tell } from '../figures.ts'
import { type Measured, startBare } from './bare.ts'
import { type Bench, channel, scaled, startReaders, write } from './parts.ts'

const rounds = 3
const revisions = 12

export async function fanOut({ postgres, ours }: Bench): Promise<void> {
  const database = await postgres.database()
  const broker = await ours.start(database.url)
  const fleet = await fill(database.url, ours.encryptionKey, {
    agents: scaled(5000),
    stacksPerAgent: 0,
    objectsPerStack: 1,
    otherStacks: 1,
    objectBytes: 500,
  })
  const client = await database.connect()
  const { rows } = await client.query<{ id: string }>('select id from stacks limit 1')
  const stackId = rows[0]!.id
  await client.query('insert into agent_targets (id, agent_id, stack_id, explicit) select gen_random_uuid(), id, $1, true from agents', [
    stackId,
  ])
  await client.end()
  const agents = fleet.agents.map(({ id, pak }) => ({ id, pak }))
  const order = { databaseUrl: database.url, encryptionKey: ours.encryptionKey, stackIds: [stackId], connections: 1, channel }
  const rates: Record<'ours' | 'bare', number[]> = { ours: [], bare: [] }
  for (let round = 0; round < rounds; round += 1) {
    for (const name of ['ours', 'bare'] as const) {
      const isOurs = name === 'ours'
      const measured = isOurs ? { program: broker, port: broker.port } : await startBare(database.url, ours.encryptionKey)
      rates[name].push(await measure(name, measured, agents, order))
      if (!isOurs) await measured.program.kill()
    }
  }
  const ratio = percentile(rates.ours, 0.5) / percentile(rates.bare, 0.5)
  tell('one stack, frames per second of CPU, ours / bare (bar 0.7)', ratio.toFixed(2))
  await broker.kill()
}

type Agents = Parameters<typeof startReaders>[0]['agents']
type Order = Omit<Parameters<typeof write>[0], 'perSecond' | 'seconds'>

/** Frames per second of CPU; throws when an agent misses a revision. */
async function measure(name: string, { program, port }: Measured, agents: Agents, order: Order): Promise<number> {
  const readers = await startReaders({ port, agents, pollMs: null })
  await readers.report()
  const lastMs: number[] = []
  const before = readCpuNs(program.pid)
  for (let revision = 0; revision < revisions; revision += 1) {
    const { commits } = await write({ ...order, perSecond: 10, seconds: 0.15 })
    await new Promise((resolve) => setTimeout(resolve, 500))
    const { sightings } = await readers.report()
    const [, rev, atNs] = commits.at(-1)!
    const seen = sightings.filter(([, seenRev]) => seenRev >= rev)
    if (seen.length !== agents.length) throw new Error(`${agents.length - seen.length} agents missed revision ${rev}`)
    lastMs.push(Math.max(...seen.map(([, , ns]) => ns - atNs)) / 1e6)
  }
  const rate = (revisions * agents.length * 1e9) / (readCpuNs(program.pid) - before)
  tell(
    `one stack, ${agents.length} agents, ${name}: the last has it`,
    `p50 ${percentile(lastMs, 0.5).toFixed(0)} ms · max ${Math.max(...lastMs).toFixed(0)} ms · ${rate.toFixed(0)} frames per second of CPU · missing 0`,
  )
  await readers.quit()
  return rate
}
