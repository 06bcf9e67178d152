// Memory of an idle broker, its start on a migrated database, and how long a rotated key still opens anything in any process.
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from '@brokkr/contract/client.ts'
import { percentile, residentMib, spread, tell } from '../figures.ts'
import type { Bench } from './compare.ts'
import { fill } from './fill.ts'
import type { Server } from './servers.ts'

const starts = Number(process.env['BENCH_STARTS'] ?? 7)
const rotations = Number(process.env['BENCH_ROTATIONS'] ?? 50)

export async function rest(bench: Bench): Promise<void> {
  const { url } = await bench.postgres.database()
  await (await bench.ours.start(url)).stop()
  await fill(url, bench.ours.encryptionKey, { agents: 1, stacksPerAgent: 10, objectsPerStack: 5, otherStacks: 50_000, objectBytes: 2048 })
  await startAndRest(bench, url)
  await revocation(bench, url)
}

async function startAndRest({ ours }: Bench, url: string): Promise<void> {
  const [ready, memory]: [number[], number[]] = [[], []]
  for (let n = 0; n < starts; n += 1) {
    const broker = await ours.start(url)
    ready.push(broker.readyMs)
    // Idle: what the start needed is given back, the feed polls, tasks tick.
    if (n < 3) {
      await sleep(20_000)
      memory.push(residentMib(broker.pid))
    }
    await broker.stop()
  }
  const [readyMs, mib] = [percentile(ready, 0.5), percentile(memory, 0.5)]
  tell('start to ready, 50,000 objects', `median ${readyMs.toFixed(0)} ms (bar 1500${readyMs > 1500 ? ', MISSED' : ''})`)
  tell('resident memory, idle for 20 s', `${mib.toFixed(0)} MiB (bar 120${mib > 120 ? ', MISSED' : ''})`)
}

/** From the answer of the rotation to the first refusal, in the process that rotated and in another one. */
async function revocation({ ours }: Bench, url: string): Promise<void> {
  const brokers = await Promise.all([ours.start(url), ours.start(url)])
  const [near] = brokers
  const admin = createClient({ baseUrl: `http://127.0.0.1:${near.port}`, pak: () => ours.adminPak, userAgent: 'bench' })
  const delays: number[][] = [[], []]
  const made = await admin.createAdminPak({ body: { name: 'bench' } })
  let { pak } = made
  for (let n = 0; n < rotations; n += 1) {
    for (const broker of brokers) if ((await readStatus(broker, pak)) !== 200) throw new Error('the new key is refused')
    const old = pak
    ;({ pak } = await admin.rotateAdminPak({ params: { id: made.id } }))
    const rotatedMs = performance.now()
    await Promise.all(brokers.map(async (broker, at) => delays[at]!.push((await refusedAt(broker, old)) - rotatedMs)))
  }
  tell('rotated key refused, same process', spread(delays[0]!))
  tell('rotated key refused, other process (bar 1 s)', spread(delays[1]!))
  await Promise.all(brokers.map((broker) => broker.stop()))
}

async function refusedAt(broker: Server, pak: string): Promise<number> {
  for (;;) {
    const askedMs = performance.now()
    if ((await readStatus(broker, pak)) === 401) return askedMs
    await sleep(1)
  }
}

const readStatus = async ({ port }: Server, pak: string): Promise<number> =>
  (await fetch(`http://127.0.0.1:${port}/api/v1/auth/pak`, { method: 'POST', headers: { authorization: `Bearer ${pak}` } })).status
