// brokkr pipeline explain: targets, conditions and the next step, as the controller sees them now.
import type { PipelineExplanation } from '@brokkr/contract/pipelines/endpoints.ts'
import type { Globals } from '../../cli.ts'
import { openClient } from '../../context.ts'
import { show } from '../../show.ts'
import { formatTable, terminalWidth } from '../../table.ts'
import { requirePipeline, shortRevision } from './find.ts'
import type { PipelineFlags } from './flags.ts'

export async function explainPipeline(globals: Globals, name: string, options: PipelineFlags & { diff?: boolean }): Promise<void> {
  const client = await openClient(globals)
  const { metadata } = await requirePipeline(client, name, options.namespace)
  const params = { namespace: metadata.namespace, name }
  const explanation = await client.explainPipeline({ params, query: { diff: options.diff === true } })
  show(options.output, { value: explanation, names: [name], lines: () => describe(name, explanation) })
}

export function describe(name: string, explanation: PipelineExplanation): string[] {
  const { run, held, suspended, trigger, environments, pending, next, wakeAt, diff } = explanation
  const state = [trigger, ...(held ? ['held'] : []), ...(suspended ? ['suspended'] : [])].join(', ')
  const runText = run === null ? 'no run' : `run ${String(run['number'])} of ${shortRevision(String(run['revision']))}`
  const rows = environments.map((environment) => [
    environment.name,
    environment.settledOn === null ? '-' : shortRevision(environment.settledOn),
    environment.promotion?.phase ?? '-',
    Object.entries(environment.predicates)
      .flatMap(([predicate, isTrue]) => (isTrue ? [] : [predicate]))
      .join(', ') || '-',
    environment.targets.flatMap(({ error }) => error ?? []).join('; ') || '-',
  ])
  return [
    `pipeline  ${name}   ${runText}   ${state}`,
    `waits     ${pending === null ? '-' : `${String(pending['reason'])}: ${String(pending['message'])}`}`,
    `next      ${describeNext(next)}${wakeAt === null ? '' : `, looks again at ${wakeAt}`}`,
    '',
    formatTable({ head: ['ENVIRONMENT', 'SETTLED ON', 'PROMOTION', 'NOT TRUE', 'TARGET ERRORS'], rows }, terminalWidth()),
    ...suggest(name, environments),
    ...(diff === undefined ? [] : ['', diff ?? 'the next promotion commits nothing']),
  ]
}

const describeNext = (next: Record<string, unknown>): string =>
  [next['do'], next['environment'], next['revision'], next['promotion']]
    .flatMap((part) => (typeof part === 'string' ? [part] : []))
    .join(' ')

/** The command that moves the pipeline on, where there is one. */
function suggest(name: string, environments: PipelineExplanation['environments']): string[] {
  const at = (phases: readonly string[]) => environments.find(({ promotion }) => promotion !== null && phases.includes(promotion.phase))
  const waiting = at(['AwaitingApproval'])
  if (waiting !== undefined) return ['', `do        brokkr approve ${name}/${waiting.name}`]
  const stopped = at(['Blocked', 'Failed', 'Errored', 'Rejected', 'Expired', 'Abandoned', 'Aborted'])
  return stopped === undefined ? [] : ['', `do        brokkr pipeline retry ${name}/${stopped.name}`]
}
