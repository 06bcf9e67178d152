// How large each test is: the same code runs small in `npm test` and large in `npm run proof` (BROKKR_TEST_TIER=proof).
// null means that this column has no such bound: S8 waits for a signal, a crash matrix takes every await, a fuzz run has hours instead of a count.

/** Rows of one column; units are last in the name. */
const table = {
  'S3.openTransactionMs': { test: 3_000, proof: 60_000 },
  'S4.commits': { test: [10_000], proof: [100_000, 1_000_000] },
  'S4.holdMsMax': { test: 20, proof: 200 },
  'S8.pauseMs': { test: null, proof: 5_000 },
  'S10.stacks': { test: 2_500, proof: 25_000 },
  'S14.streams': { test: 1_000, proof: 10_000 },
  'S31.streams': { test: 1_000, proof: 20_000 },
  'S33.outageMs': { test: 2_000, proof: 10_000 },
  'S46.rows': { test: 20_000, proof: 100_000 },
  'Q1.seedsMin': { test: 25, proof: 100_000 },
  'Q1.budgetMs': { test: 90_000, proof: null },
  'Q3.seededAwaits': { test: 40, proof: null },
  'A31.seededAwaits': { test: 40, proof: null },
  'A31.more': { test: 1, proof: 20 },
  'A54.seededAwaits': { test: 40, proof: null },
  'Q7.cases': { test: 100, proof: 10_000 },
  'Q8.inputs': { test: 200, proof: null },
  'Q8.budgetMs': { test: null, proof: 4 * 3_600_000 },
  'webhooks.events': { test: 1_000, proof: 10_000 },
  'webhooks.subscriptions': { test: 10, proof: 10 },
  'A28.apiServerDownMs': { test: 10_000, proof: 120_000 },
  'A10.polls': { test: 120, proof: null },
  'A10.durationMs': { test: null, proof: 3_600_000 },
  'journey.brokerDownMs': { test: 3_000, proof: 60_000 },
  'A50.objects': { test: 1_000, proof: 5_000 },
  'A50.durationMs': { test: 60_000, proof: 3_600_000 },
  'kube.objects': { test: 1_000, proof: 10_000 },
  'processor.messages': { test: 20_000, proof: 1_000_000 },
  'processor.kills': { test: 2, proof: 50 },
  'D69.outageMs': { test: 8_000, proof: 600_000 },
  'D69.budgetBytes': { test: 4 * 1024 * 1024, proof: null },
  'D92.rows': { test: 20_000, proof: 100_000 },
  'D98.rows': { test: 20_000, proof: 100_000 },
  'D114.flows': { test: 200, proof: 1_000 },
  'D101.rows': { test: 50_000, proof: 1_000_000 },
  'twoBrokers.submissions': { test: 320, proof: 8_000 },
  'fuzz.requests': { test: 5_000, proof: 100_000 },
  'pipelines.schedules': { test: 200, proof: 5_000 },
  'bounds.histories': { test: 12, proof: 500 },
  'command.followers': { test: 50, proof: 500 },
} satisfies Record<string, Row>

type Cell = number | readonly number[] | null
type Row = { test: Cell; proof: Cell }
type Table = typeof table
export type SizeName = keyof Table
type ColumnOf<K extends SizeName> = Table[K]['test'] | Table[K]['proof']
/** A row with numbers in both columns is a number to its caller; a row with null must be checked. */
export type SizeOf<K extends SizeName> = null extends ColumnOf<K> ? number | null : number
export type Tier = 'test' | 'proof'

/** The size of this run; of a row with several sizes the largest. */
export function size<K extends SizeName>(name: K, tier: Tier = tierOfRun()): SizeOf<K> {
  return sizes(name, tier).at(-1) as SizeOf<K>
}

/** All sizes of this run, smallest first: proof runs some tests more than once. */
export function sizes<K extends SizeName>(name: K, tier: Tier = tierOfRun()): readonly SizeOf<K>[] {
  const cell: Cell = table[name][tier]
  return (Array.isArray(cell) ? cell : [cell]) as readonly SizeOf<K>[]
}

export function tierOfRun(environment: NodeJS.ProcessEnv = process.env): Tier {
  return environment['BROKKR_TEST_TIER'] === 'proof' ? 'proof' : 'test'
}

export const sizeNames = Object.keys(table) as SizeName[]
