// What a call costs against the size of the fleet and the length of histories: flat, if it is led by an index. All sizes stand side by
// side, each with a broker of its own, and rounds go through them in turn, so that a busy minute of the machine meets every size.
import { tell } from '../figures.ts'
import type { Bench } from './compare.ts'
import { type Fleet, fill } from './fill.ts'
import { getStack, heartbeat, pages, targetState } from './requests.ts'
import { type Figures, medians, runLoad } from './run-load.ts'
import type { Server } from './servers.ts'

const seconds = Number(process.env['BENCH_SECONDS'] ?? 3)
const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
const base = { agents: 1, stacksPerAgent: 200, objectsPerStack: 50, otherStacks: 0, objectBytes: 2048 }
type Lanes = readonly (readonly string[])[]
type Calls = Readonly<Record<string, (at: Standing) => Lanes | Promise<Lanes>>>

export async function curves(bench: Bench): Promise<void> {
  const everyAgent: Calls = {
    'target state': ({ fleet }) => targetState(fleet),
    'GET one stack': ({ fleet }) => getStack(fleet),
    heartbeat: ({ fleet }) => heartbeat(fleet),
  }
  const histories = [1, 50, 250].map((objectsPerStack) => ({ name: `history of ${objectsPerStack}`, size: { ...base, objectsPerStack } }))
  if (isWanted('histories')) await curve(bench, histories, everyAgent)
  const fleets = [1_000, 10_000, 100_000].map((otherStacks) => ({
    name: `${otherStacks} stacks`,
    size: { ...base, objectsPerStack: 5, otherStacks },
  }))
  const pagesOfStacks: Calls[string] = (at) => pagesAround(bench, at, '/stacks?limit=100', at.size.otherStacks)
  if (isWanted('fleets')) await curve(bench, fleets, { ...everyAgent, 'page of 100, 16 readers': pagesOfStacks })
  const revisions = [1_000, 10_000, 100_000].map((objectsPerStack) => ({
    name: `${objectsPerStack} objects`,
    size: { ...base, stacksPerAgent: 1, objectsPerStack, objectBytes: 200 },
  }))
  const pagesOfObjects: Calls[string] = (at) =>
    pagesAround(bench, at, `/stacks/${at.fleet.agents[0]!.stackIds[0]}/deployment-objects?limit=100`, at.size.objectsPerStack)
  if (isWanted('revisions')) await curve(bench, revisions, { 'page of 100, 16 readers': pagesOfObjects })
}

/** One curve alone, for a short run. */
const isWanted = (name: string): boolean => (process.env['BENCH_CURVES'] ?? name).split(',').includes(name)

interface Standing {
  readonly name: string
  readonly size: typeof base
  readonly fleet: Fleet
  readonly broker: Server
}

async function curve(bench: Bench, sizes: readonly Pick<Standing, 'name' | 'size'>[], calls: Calls): Promise<void> {
  const standing: Standing[] = []
  try {
    for (const { name, size } of sizes) {
      const { url } = await bench.postgres.database()
      const broker = await bench.ours.start(url)
      standing.push({ name, size, broker, fleet: await fill(url, bench.ours.encryptionKey, size) })
    }
    for (const [call, lanesOf] of Object.entries(calls)) await tellCurve(bench, standing, { call, lanesOf })
  } finally {
    await Promise.all(standing.map(({ broker }) => broker.stop()))
  }
}

async function tellCurve(
  { postgres }: Bench,
  standing: readonly Standing[],
  { call, lanesOf }: { call: string; lanesOf: Calls[string] },
): Promise<void> {
  const figures = new Map<string, Figures[]>()
  for (let round = 0; round < rounds; round += 1) {
    for (const at of standing) {
      const order = { port: at.broker.port, seconds, warmUpSeconds: round === 0 ? 2 * seconds : 0.5, lanes: await lanesOf(at) }
      const measured = await runLoad(order, { server: at.broker.pid, postgres: postgres.pid })
      figures.set(at.name, [...(figures.get(at.name) ?? []), measured])
    }
  }
  const first = sumCpuMs(medians(figures.get(standing[0]!.name)!))
  for (const { name } of standing) {
    const median = medians(figures.get(name)!)
    const share = (sumCpuMs(median) / first).toFixed(2)
    tell(`${call}, ${name}`, `CPU ${sumCpuMs(median).toFixed(2)} ms, ${share} of the first (PostgreSQL ${median.postgresUs.toFixed(0)} µs)`)
  }
}

const sumCpuMs = ({ ownUs, postgresUs }: Figures): number => (ownUs + postgresUs) / 1000

/** Ten pages around the middle of the list, found by paging there as a reader would. */
async function pagesAround({ ours }: Bench, { broker }: Standing, path: string, total: number): Promise<Lanes> {
  const found: string[] = []
  const headers = { authorization: `Bearer ${ours.adminPak}` }
  const large = path.replace('limit=100', 'limit=1000')
  let next: string | null = total > 1_000 ? large : path
  for (let seen = 0; next !== null && found.length < 10; ) {
    const isAround = seen >= total / 2 - 500
    const response: Response = await fetch(`http://127.0.0.1:${broker.port}/api/v1${next}`, { headers })
    if (isAround) found.push(next.replace('limit=1000', 'limit=100'))
    seen += ((await response.json()) as unknown[]).length
    const cursor = response.headers.get('x-next-cursor')
    const isNear = seen >= total / 2 - 500
    next = cursor === null ? null : `${isNear ? path : large}&cursor=${encodeURIComponent(cursor)}`
  }
  return pages(ours.adminPak, found)
}
