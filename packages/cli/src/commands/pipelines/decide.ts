// brokkr approve | reject, brokkr pipeline retry | abort: changes of the newest promotion into one environment.
import type { Client } from '@brokkr/client'
import type { StoredPipeline } from '@brokkr/contract/pipelines/endpoints.ts'
import type { Globals } from '../../cli.ts'
import { openClient } from '../../context.ts'
import { parseDuration } from '../../duration.ts'
import { CliError, exitCodes } from '../../output.ts'
import { show } from '../../show.ts'
import { listPromotions, type Promotion, requireEnvironment, shortRevision } from './find.ts'
import type { ChangeFlags, PipelineFlags } from './flags.ts'
import { waitForRun } from './wait.ts'

export async function decidePromotion(
  globals: Globals,
  target: string,
  options: ChangeFlags & { decision: 'approve' | 'reject' },
): Promise<void> {
  const limitMs = parseDuration(options.timeout, '--timeout')
  const client = await openClient(globals)
  const { pipeline, environment } = await requireEnvironment(client, target, options.namespace)
  const promotion = await requireWaiting(client, pipeline, environment)
  const { key, revision } = promotion.spec
  if (options.revision !== undefined && options.revision !== revision)
    throw new CliError(`another revision waits for ${target}`, {
      where: `${revision} waits, not ${options.revision}`,
      next: `brokkr pipeline explain ${pipeline.metadata.name}`,
      exitCode: exitCodes.refused,
    })
  const body = { decision: options.decision, key, ...(options.reason === undefined ? {} : { message: options.reason }) }
  const counts = await client.decidePromotion({ params: toParams(promotion), body })
  show(options.output, {
    value: { promotion: promotion.name, revision, ...counts },
    names: [promotion.name],
    lines: () => [describeDecision(target, options.decision, revision, counts)],
  })
  if (options.wait === true) await waitForRun(client, pipeline, { run: promotion.spec.run, revision, environments: [environment], limitMs })
}

function describeDecision(
  target: string,
  decision: 'approve' | 'reject',
  revision: string,
  { approvals, required }: { approvals: number; required: number },
): string {
  const what = `${target} ${shortRevision(revision)}`
  if (decision === 'reject') return `${what} rejected`
  const left = required - approvals
  return left > 0 ? `${what} approved by ${approvals} of ${required}; needs ${left} more` : `${what} approved: ${approvals} of ${required}`
}

async function requireWaiting(client: Client, pipeline: StoredPipeline, environment: string): Promise<Promotion> {
  const [promotion] = await listPromotions(client, pipeline, { environment, phase: 'AwaitingApproval' }, 1)
  if (promotion !== undefined) return promotion
  const { name } = pipeline.metadata
  throw new CliError(`no promotion awaits approval in ${name}/${environment}`, {
    next: `brokkr pipeline explain ${name}`,
    exitCode: exitCodes.refused,
  })
}

export async function retryPromotion(globals: Globals, target: string, options: PipelineFlags): Promise<void> {
  const { client, promotion } = await openNewest(globals, target, options)
  const { status, body } = await client.call('retryPromotion', { params: toParams(promotion) })
  const name = status === 201 && 'name' in body ? body.name : promotion.name
  show(options.output, {
    value: { promotion: name, revision: promotion.spec.revision },
    names: [name],
    lines: () => [`${target} ${shortRevision(promotion.spec.revision)} is retried as ${name}`],
  })
}

export async function abortPromotion(globals: Globals, target: string, options: PipelineFlags): Promise<void> {
  const { client, promotion } = await openNewest(globals, target, options)
  await client.abortPromotion({ params: toParams(promotion) })
  show(options.output, {
    value: { promotion: promotion.name, revision: promotion.spec.revision },
    names: [promotion.name],
    lines: () => [`${target} ${shortRevision(promotion.spec.revision)} is being aborted`],
  })
}

async function openNewest(globals: Globals, target: string, options: PipelineFlags): Promise<{ client: Client; promotion: Promotion }> {
  const client = await openClient(globals)
  const { pipeline, environment } = await requireEnvironment(client, target, options.namespace)
  const [promotion] = await listPromotions(client, pipeline, { environment }, 1)
  if (promotion === undefined)
    throw new CliError(`nothing was promoted into ${target} yet`, {
      next: `brokkr promote ${pipeline.metadata.name} --to ${environment}`,
      exitCode: exitCodes.notFound,
    })
  return { client, promotion }
}

const toParams = ({ namespace, name }: Promotion) => ({ namespace, name })
