// Waits until a run has ended in its environments. Ctrl-C stops waiting, not the promotions.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@brokkr/client'
import type { StoredPipeline } from '@brokkr/contract/pipelines/endpoints.ts'
import { CliError, exitCodes, print } from '../../output.ts'
import { listPromotions, type Promotion, requirePipeline, statusOf } from './find.ts'
import { type EnvironmentView, judgeRun, type RunView } from './judge-run.ts'

const everyMs = 500
const promotionsMax = 200

interface Wanted {
  readonly run: number
  readonly revision: string
  readonly environments: readonly string[]
  readonly limitMs: number
}

export async function waitForRun(client: Client, { metadata }: StoredPipeline, wanted: Wanted): Promise<void> {
  const { name } = metadata
  const end = Date.now() + wanted.limitMs
  for (;;) {
    const pipeline = await requirePipeline(client, name, metadata.namespace)
    const judgement = judgeRun(toView(pipeline, await listPromotions(client, pipeline, {}, promotionsMax), wanted))
    if (judgement.state === 'failed') throw ended(name, judgement.promotion)
    if (judgement.state === 'replaced') throw replaced(name, wanted.run, judgement.by)
    if (judgement.state === 'done') return print(describe(name, wanted.run, judgement))
    if (Date.now() > end)
      throw new CliError(`${name} run ${wanted.run} has not ended in time`, {
        where: judgement.where,
        next: `brokkr pipeline explain ${name}`,
        exitCode: exitCodes.timedOut,
      })
    await sleep(everyMs)
  }
}

interface EnvironmentSpec {
  readonly name: string
  readonly targets?: readonly object[]
  readonly promotion?: object
}

function toView(pipeline: StoredPipeline, promotions: readonly Promotion[], { run, revision, environments: wanted }: Wanted): RunView {
  const status = statusOf(pipeline)
  const { environments = [], promotion } = (pipeline.spec ?? {}) as { environments?: EnvironmentSpec[]; promotion?: object }
  const toEnvironment = ({ name, targets = [], promotion: own }: EnvironmentSpec): EnvironmentView => ({
    name,
    promotion: pickNewest(promotions, run, name),
    targets: status.environments?.[name]?.targets ?? [],
    targetCount: targets.length,
    hasPolicy: (own ?? promotion) !== undefined,
  })
  const walked = environments.filter(({ name }) => wanted.includes(name))
  return { run, revision, environments: walked.map(toEnvironment), currentRun: status.run?.number }
}

/** The promotion of the run with the highest series. */
function pickNewest(promotions: readonly Promotion[], run: number, environment: string): Promotion | null {
  const own = promotions.filter(({ spec }) => spec.run === run && spec.environment === environment)
  return own.toSorted((a, b) => b.spec.series - a.spec.series)[0] ?? null
}

function describe(name: string, run: number, { reached, left }: { reached: readonly string[]; left: readonly string[] }): string {
  const done = reached.length === 0 ? `${name} run ${run} has nothing to promote` : `${name} run ${run} succeeded in ${reached.join(', ')}`
  return left.length === 0 ? done : `${done}; ${left.join(', ')} has no promotion`
}

const ended = (name: string, { spec, status }: Pick<Promotion, 'spec' | 'status'>): CliError =>
  new CliError(`the promotion into ${name}/${spec.environment} ended as ${status.phase ?? 'unknown'}`, {
    where: [status.reason, status.message].filter(Boolean).join(': '),
    next: `brokkr pipeline explain ${name}`,
    exitCode: exitCodes.unhealthy,
  })

const replaced = (name: string, run: number, by: number): CliError =>
  new CliError(`${name} run ${run} was replaced by run ${by}`, { next: `brokkr pipeline explain ${name}`, exitCode: exitCodes.refused })
