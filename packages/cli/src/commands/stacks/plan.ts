// brokkr plan: every targeted agent computes with dry runs what a change would do; prints the answers of the fleet.
import type { Client } from '@brokkr/client'
import type { Plan, PlanWithResults } from '@brokkr/contract/plans/plan.ts'
import type { Cli } from '../../cli.ts'
import type { Form } from '../../command.ts'
import { parseDuration } from '../../duration.ts'
import { requireStack } from '../../names.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { show } from '../../show.ts'
import { terminalWidth } from '../../table.ts'
import { waitUntil } from '../../wait.ts'
import { groupPlan, mayChange } from './plan-groups.ts'
import { planLines, planMarkdown } from './plan-screen.ts'
import { readProject } from './project-file.ts'
import { readManifests } from './read-manifests.ts'

interface PlanOptions {
  readonly output: Form | 'markdown'
  readonly file?: string
  readonly to?: string
  readonly stack?: string
  readonly exitCode?: boolean
  readonly timeout: string
}

export async function plan(cli: Cli, _args: readonly string[], options: PlanOptions): Promise<void> {
  parseDuration(options.timeout, '--timeout')
  const name = options.stack ?? (await readProject()).stack
  if (name === undefined) throw new CliError('no stack is named', { next: '--stack NAME', exitCode: exitCodes.usage })
  const body = await readChange(options, name)
  const client = await cli.client()
  const stack = await requireStack(client, name)
  const created = await client.createPlan({ params: { id: stack.id }, body })
  const answered = await readAnswers(cli, client, { plan: created, name, timeout: options.timeout })
  const apply = `brokkr apply --plan ${answered.id}${options.file === undefined ? '' : ` -f ${quote(options.file)}`}`
  const screen = { plan: answered, stack: name, apply }
  if (options.output === 'markdown') for (const line of planMarkdown(screen)) print(line)
  else {
    const isWide = options.output === 'wide'
    const width = isWide ? Number.POSITIVE_INFINITY : terminalWidth()
    show(options.output, { value: answered, names: [answered.id], lines: () => planLines(screen, { width, isWide }) })
  }
  if (options.exitCode === true && mayChange(groupPlan(answered.results))) process.exitCode = exitCodes.changes
}

async function readChange({ file, to }: PlanOptions, name: string): Promise<{ yaml_content: string } | { sequence_id: number }> {
  if ((file === undefined) === (to === undefined))
    throw new CliError('a plan needs either manifests or a sequence number', {
      next: `brokkr plan -f FILE --stack ${name}, or brokkr plan --to SEQUENCE --stack ${name}`,
      exitCode: exitCodes.usage,
    })
  if (file !== undefined) return { yaml_content: await readManifests(file) }
  if (!/^[1-9]\d{0,8}$/.test(to!))
    throw new CliError(`${JSON.stringify(to)} is not a sequence number`, {
      next: `brokkr stacks history ${name}`,
      exitCode: exitCodes.usage,
    })
  return { sequence_id: Number(to) }
}

/** Until every agent has answered or is silent. An agent that has not answered by the timeout is shown as silent. */
async function readAnswers(
  cli: Cli,
  client: Client,
  { plan: created, name, timeout }: { plan: Plan; name: string; timeout: string },
): Promise<PlanWithResults> {
  const params = { id: created.id }
  let read: PlanWithResults = { ...created, results: [] }
  await waitUntil(cli, client, {
    what: `the plan of ${name}`,
    next: '',
    scope: [`stack:${created.stack_id}`],
    timeout,
    check: async () => {
      read = await client.getPlan({ params })
      const open = read.results.filter(({ state }) => state === 'waiting').length
      return open === 0 ? null : `the answers of ${open} of ${read.results.length} agents`
    },
  }).catch((error: unknown) => {
    if (!(error instanceof CliError && error.exitCode === exitCodes.timedOut)) throw error
  })
  // Answers that did not fit into the response are read one by one.
  const results = []
  for (const result of read.results) {
    const query = { agent_id: result.agent_id }
    results.push(result.has_more ? ((await client.getPlan({ params, query })).results[0] ?? result) : result)
  }
  return { ...read, results }
}

const quote = (path: string): string => (/^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`)
