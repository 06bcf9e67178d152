// Deliveries per second to ten receivers of which one never answers, and what an event costs with 100 subscriptions of which 3 match.
// One broker with shipped defaults. BENCH_EVENTS sets the number of events.
import { createServer, type Server as HttpServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createClient } from '@brokkr/contract/client.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { prepareOurs, type Server } from '../broker/servers.ts'
import { percentile, spread, tell } from '../figures.ts'

const events = Number(process.env['BENCH_EVENTS'] ?? 500)
const submissions = Number(process.env['BENCH_SUBMISSIONS'] ?? 400)
const postgres = await privatePostgres({ fsync: true, logicalReplication: false })
const ours = await prepareOurs()
tell('PostgreSQL', 'fsync on, all else as the server ships; broker, database and receivers share this machine')
try {
  await deliver()
  await enqueue()
} finally {
  await postgres.stop()
}

interface Receiver {
  readonly url: string
  /** Arrival of each delivery. */
  readonly arrivals: number[]
  close(): void
}

async function startReceiver({ hangs }: { hangs: boolean }): Promise<Receiver> {
  const arrivals: number[] = []
  const server: HttpServer = createServer((request, response) => {
    request.resume().once('end', () => {
      arrivals.push(performance.now())
      if (!hangs) response.writeHead(204).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, arrivals, close }
}

function clientOf({ port }: Server): ReturnType<typeof createClient> {
  return createClient({ baseUrl: `http://127.0.0.1:${port}`, pak: () => ours.adminPak, userAgent: 'bench' })
}

async function deliver(): Promise<void> {
  const { url } = await postgres.database()
  const broker = await ours.start(url, { BROKKR__BROKER__WEBHOOK_ALLOWED_CIDRS: '127.0.0.1' })
  const admin = clientOf(broker)
  const receivers = await Promise.all(Array.from({ length: 10 }, (_, n) => startReceiver({ hangs: n === 0 })))
  for (const [n, receiver] of receivers.entries())
    await admin.createWebhook({ body: { name: `w${n}`, url: receiver.url, event_types: ['stack.created'], timeout_seconds: 30 } })
  const { generator } = await admin.createGenerator({ body: { name: 'g' } })
  const startedMs = performance.now()
  await mapBounded(Array.from({ length: events }), 16, (_, n) => admin.createStack({ body: { name: `s${n}`, generator_id: generator.id } }))
  const createdMs = performance.now()
  const healthy = receivers.slice(1)
  await waitFor('all deliveries', () => healthy.every(({ arrivals }) => arrivals.length >= events), { limitMs: 300_000, everyMs: 20 })
  const lastMs = Math.max(...healthy.flatMap(({ arrivals }) => arrivals))
  const perSecond = (9 * events) / ((lastMs - startedMs) / 1000)
  tell(
    `${events} events to 10 receivers, 1 hangs`,
    `${perSecond.toFixed(0)} deliveries/s to the nine · last one ${(lastMs - createdMs).toFixed(0)} ms after the last event`,
  )
  const ends = healthy.map(({ arrivals }) => Math.max(...arrivals) - startedMs)
  tell('time until each of the nine has all', `fastest ${Math.min(...ends).toFixed(0)} ms · slowest ${Math.max(...ends).toFixed(0)} ms`)
  tell('deliveries under way at the hung one', String(receivers[0]?.arrivals.length))
  await broker.kill()
  for (const receiver of receivers) receiver.close()
}

/** Time of a submission with no subscription, and with a hundred of which three match. Receivers are agents, so nothing is sent. */
async function enqueue(): Promise<void> {
  const { url } = await postgres.database()
  const broker = await ours.start(url)
  const admin = clientOf(broker)
  const { generator } = await admin.createGenerator({ body: { name: 'g' } })
  const stack = await admin.createStack({ body: { name: 's', generator_id: generator.id } })
  const submit = async (): Promise<number> => {
    const startedMs = performance.now()
    await admin.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
    return performance.now() - startedMs
  }
  const sample = async (): Promise<number[]> => {
    const times: number[] = []
    for (let n = 0; n < submissions; n += 1) times.push(await submit())
    return times
  }
  await sample()
  const bare = await sample()
  for (let n = 0; n < 100; n += 1)
    await admin.createWebhook({
      body: {
        name: `w${n}`,
        url: 'https://example.com/',
        event_types: [n < 3 ? 'deployment.created' : 'agent.*'],
        target_labels: ['nobody'],
      },
    })
  await sample()
  const full = await sample()
  tell('submission without subscriptions', spread(bare))
  tell('with 100 subscriptions, 3 match', spread(full))
  tell('difference of the medians', `${(percentile(full, 0.5) - percentile(bare, 0.5)).toFixed(2)} ms`)
  await broker.stop()
}
