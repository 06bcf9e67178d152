// brokkr status: counts and problems on one screen; exits with 6 if there are problems, for scripts. Reads the overview and, for
// each kind of problem that it counts, pages of stack summaries; makes no call per stack.

import type { Client } from '@brokkr/client'
import type { Overview } from '@brokkr/contract/agents/fleet.ts'
import type { ListedStack } from '@brokkr/contract/stacks/stack.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { age, exitCodes } from '../../output.ts'
import { repeatOnChange, scopesOf, screenPrinter } from '../../screens.ts'
import { show, type View } from '../../show.ts'
import { stripControls } from '../../table.ts'

const shownMax = 20
const pageSize = 200
/** Pages of all stacks that are searched for stacks of agents that are behind. */
const unfilteredPagesMax = 10

interface StatusOptions {
  readonly output: Form
  readonly label: readonly string[]
  readonly watch?: boolean
}

export async function status(cli: Cli, _args: readonly string[], options: StatusOptions): Promise<void> {
  const client = await cli.client()
  const read = () => readStatus(client, options.label)
  if (options.watch === true) {
    const draw = screenPrinter(options.output)
    return repeatOnChange(cli, client, await scopesOf(client, watchedKinds), async () => draw((await read()).view))
  }
  const { view, isWrong } = await read()
  show(options.output, view)
  if (isWrong) process.exitCode = exitCodes.unhealthy
}

const watchedKinds = ['agent', 'stack', 'deployment_object', 'status', 'target', 'health', 'work_order']

async function readStatus(client: Client, labels: readonly string[]): Promise<{ view: View; isWrong: boolean }> {
  const overview = await client.getOverview({})
  const stacks = await listUnhealthyStacks(client, overview, labels)
  const problems = labels.length === 0 ? fleetProblems(overview) : []
  const isWrong = stacks.length > 0 || problems.length > 0 || (labels.length === 0 && hasUnhealthyStacks(overview))
  const view = {
    value: { ...overview, wrong: stacks },
    names: stacks.map(({ name }) => name),
    lines: () => statusLines(overview, stacks),
  }
  return { view, isWrong }
}

export function statusLines(overview: Overview, stacks: readonly UnhealthyStack[]): string[] {
  const [first] = stacks
  const next =
    first !== undefined
      ? [`next     brokkr describe stack ${first.name}`]
      : fleetProblems(overview).length > 0
        ? ['next     brokkr get agents']
        : []
  return [...summaryLines(overview), ...stacks.map(({ name, reasons }) => `wrong    ${name}   ${reasons.join('   ')}`), ...next].map(
    stripControls,
  )
}

/** Counts of the overview decide too: it is up to a second older than the lists, and the screen shows both. */
const hasUnhealthyStacks = ({ stacks, decisions }: Overview): boolean =>
  stacks.failing + stacks.degraded + stacks.drifted + decisions.prune_held > 0

export function summaryLines(overview: Overview): string[] {
  const { fleet, stacks, decisions } = overview
  const counts = { degraded: stacks.degraded, failing: stacks.failing, unknown: stacks.unknown, drifted: stacks.drifted }
  const withCounts = (head: string, parts: readonly string[]) => [head, ...parts].join('   ')
  return [
    'broker   ok',
    withCounts(`fleet    ${fleet.current} of ${fleet.total} current`, [
      ...fleetProblems(overview),
      ...(overview.oldest_seen_at === null ? [] : [`oldest report ${age(overview.oldest_seen_at, Date.parse(overview.at))} ago`]),
    ]),
    withCounts(
      `stacks   ${stacks.healthy} of ${stacks.total} healthy`,
      Object.entries(counts).flatMap(([name, count]) => (count === 0 ? [] : [`${count} ${name}`])),
    ),
    `guard    ${decisions.prune_held === 0 ? 'no prune is held' : `${decisions.prune_held} prunes are held`}`,
    `holds    ${overview.holds}`,
    `orders   ${overview.work_orders === null ? 'not available' : `${overview.work_orders.pending} pending`}`,
  ]
}

/** Agents that are not current, by reason. */
const fleetProblems = ({ fleet: { behind, silent, never } }: Overview): string[] =>
  Object.entries({ behind, silent, 'never connected': never }).flatMap(([name, count]) => (count === 0 ? [] : [`${count} ${name}`]))

export interface UnhealthyStack {
  readonly name: string
  readonly reasons: readonly string[]
}

const unfiltered = {}

/** Reads at most as many stacks as are shown; the overview tells which kinds of problems exist. */
async function listUnhealthyStacks(
  client: Client,
  { fleet, stacks, decisions }: Overview,
  labels: readonly string[],
): Promise<UnhealthyStack[]> {
  const filters = [
    ...(stacks.failing > 0 ? [{ health: 'failing' as const }] : []),
    ...(stacks.degraded > 0 ? [{ health: 'degraded' as const }] : []),
    ...(decisions.prune_held > 0 ? [{ held: true }] : []),
    ...(stacks.drifted > 0 ? [{ drifted: true }] : []),
    ...(stacks.unknown > 0 ? [{ health: 'unknown' as const }] : []),
    // A failed or pending deployment object leaves the applied one healthy, so no filter selects its stack.
    ...(fleet.behind > 0 ? [unfiltered] : []),
  ]
  const unhealthyById = new Map<string, UnhealthyStack>()
  for (const filter of filters) {
    let pages = 0
    for await (const page of client.pages('listStacks', { query: { include: 'status', label: [...labels], ...filter } }, { pageSize })) {
      for (const stack of page) {
        const reasons = unhealthyReasons(stack)
        if (reasons.length > 0 && unhealthyById.size < shownMax) unhealthyById.set(stack.id, { name: stack.name, reasons })
      }
      if (unhealthyById.size >= shownMax) return [...unhealthyById.values()]
      if (++pages >= unfilteredPagesMax && filter === unfiltered) break
    }
  }
  return [...unhealthyById.values()]
}

/** Empty for a healthy stack and for a stack without a deployment object. */
export function unhealthyReasons({ status: summary }: Pick<ListedStack, 'status'>): string[] {
  if (summary === undefined || summary.desired_sequence_id === null) return []
  const { agents_total, agents_current, agents_failed, health, drifted, held } = summary
  if (agents_total === 0) return ['no agent']
  return [
    ...(health === 'healthy' ? [] : [health]),
    ...(agents_failed === 0 ? [] : [`failed on ${agents_failed} of ${agents_total} agents`]),
    ...(agents_current === agents_total ? [] : [`current on ${agents_current} of ${agents_total} agents`]),
    ...(held ? ['held'] : []),
    ...(drifted === 0 ? [] : [`drifted on ${drifted} agents`]),
  ]
}
