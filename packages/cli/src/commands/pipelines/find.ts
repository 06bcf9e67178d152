// Finds pipelines and promotions by the names that people type, through the broker.
import type { Client } from '@brokkr/client'
import type { StoredPipeline, StoredPromotion } from '@brokkr/contract/pipelines/endpoints.ts'
import { PipelineStatus } from '@brokkr/contract/pipelines/pipeline-status.ts'
import { PromotionSpec, PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import { CliError, exitCodes } from '../../output.ts'

const pageSize = 200

export interface Promotion {
  readonly namespace: string
  readonly name: string
  readonly createdAt: string
  readonly spec: PromotionSpec
  readonly status: PromotionStatus
}

export const statusOf = ({ status }: StoredPipeline): PipelineStatus => PipelineStatus.parse(status)

/** Names of the environments in promotion order; empty for an invalid spec. */
export function environmentsOf({ spec }: StoredPipeline): string[] {
  const environments = Array.isArray(spec?.['environments']) ? (spec['environments'] as { name: string }[]) : []
  return environments.map(({ name }) => name)
}

export async function listAll(client: Client, namespace?: string): Promise<StoredPipeline[]> {
  const pipelines: StoredPipeline[] = []
  const query = namespace === undefined ? {} : { namespace }
  for await (const page of client.pages('listPipelines', { query }, { pageSize })) pipelines.push(...page)
  return pipelines
}

export async function requirePipeline(client: Client, name: string, namespace?: string): Promise<StoredPipeline> {
  const [first, ...others] = (await listAll(client, namespace)).filter(({ metadata }) => metadata.name === name)
  if (first === undefined)
    throw new CliError(`there is no pipeline named ${name}`, {
      ...(namespace === undefined ? {} : { where: `namespace ${namespace}` }),
      next: 'brokkr pipeline list',
      exitCode: exitCodes.notFound,
    })
  if (others.length > 0)
    throw new CliError(`the name ${name} is used in several namespaces`, {
      where: [first, ...others].map(({ metadata }) => metadata.namespace).join(', '),
      next: `name one: --namespace ${first.metadata.namespace}`,
      exitCode: exitCodes.usage,
    })
  return first
}

/** `checkout/prod` → pipeline and environment, both known. */
export async function requireEnvironment(
  client: Client,
  target: string,
  namespace?: string,
): Promise<{ pipeline: StoredPipeline; environment: string }> {
  const [name = '', environment = '', ...rest] = target.split('/')
  if (name === '' || environment === '' || rest.length > 0)
    throw new CliError(`"${target}" does not name an environment`, {
      next: 'write PIPELINE/ENVIRONMENT, such as checkout/prod',
      exitCode: exitCodes.usage,
    })
  const pipeline = await requirePipeline(client, name, namespace)
  requireKnown(pipeline, environment)
  return { pipeline, environment }
}

export function requireKnown(pipeline: StoredPipeline, environment: string): void {
  const known = environmentsOf(pipeline)
  if (known.includes(environment)) return
  throw new CliError(`pipeline ${pipeline.metadata.name} has no environment ${environment}`, {
    where: `it has ${known.join(', ') || 'none'}`,
    next: `brokkr pipeline explain ${pipeline.metadata.name}`,
    exitCode: exitCodes.notFound,
  })
}

/** Promotions of one pipeline, newest first; those of a deleted pipeline of the same name are left out. */
export async function listPromotions(
  client: Client,
  pipeline: StoredPipeline,
  filter: { environment?: string; phase?: string },
  limit: number,
): Promise<Promotion[]> {
  const { namespace, name, uid } = pipeline.metadata
  const promotions = await client.listPromotions({ query: { namespace, pipeline: name, ...filter, limit } })
  return promotions.map(toPromotion).filter(({ spec }) => spec.pipelineRef.uid === uid)
}

const toPromotion = ({ metadata, spec, status }: StoredPromotion): Promotion => ({
  namespace: metadata.namespace,
  name: metadata.name,
  createdAt: metadata.creationTimestamp,
  spec: PromotionSpec.parse(spec),
  status: PromotionStatus.parse(status),
})

/** A checksum is shown short, any other revision whole. */
export const shortRevision = (revision: string): string => (/^[0-9a-f]{40,}$/.test(revision) ? revision.slice(0, 12) : revision)
