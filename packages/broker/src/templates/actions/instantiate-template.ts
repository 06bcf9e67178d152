// Renders a template with parameters and submits the result as an ordinary deployment object, with its provenance in the same transaction.
import type { DeploymentObject } from '@brokkr/contract/deployments/deployment-object.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import type { RenderedTemplate } from '@brokkr/contract/templates/template.ts'
import type { Sql } from '@brokkr/postgres'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Actor } from '../../audit/rules.ts'
import { submitDeploymentObject } from '../../deployments/actions/submit-deployment-object.ts'
import type { ManifestWork, Validation } from '../../deployments/rules/manifest-job.ts'
import type { Seal } from '../../seal.ts'
import * as annotations from '../../targeting/store/annotations.ts'
import * as labels from '../../targeting/store/labels.ts'
import type { SubscriptionCache } from '../../webhooks/subscriptions/subscription-cache.ts'
import { findMismatch } from '../rules/match-stack.ts'
import type { TemplateWork } from '../rules/template-job.ts'
import * as stackTemplates from '../store/stack-templates.ts'
import { toTemplateContext } from '../store/stack-templates.ts'
import * as templateLabels from '../store/template-labels.ts'

export interface Instantiation {
  readonly stackId: string
  readonly templateId: string
  /** As sent; numbers that a double cannot hold are raw JSON. */
  readonly parameters: unknown
  /** Null: an admin, who may use every template. */
  readonly generatorId: string | null
  readonly validation: Validation
  readonly outputBytesMax: number
  readonly actor: Actor
}
interface Deps {
  readonly sql: Sql
  readonly seal: Seal
  readonly clock: Clock
  readonly templates: TemplateWork
  readonly manifests: ManifestWork
  readonly subscriptionCache: SubscriptionCache
  readonly wakeFeed: (stackId?: string) => void
}

export async function instantiateTemplate(deps: Deps, input: Instantiation): Promise<DeploymentObject & { warnings?: string[] }> {
  const { id, version, parameters, renderedAt, text, warnings } = await render(deps, input)
  const object = await submitDeploymentObject(deps, {
    stackId: input.stackId,
    yamlContent: text,
    isDeletionMarker: false,
    expectedSequenceId: undefined,
    provenance: { templateId: id, templateVersion: version, parameters, renderedAt },
    actor: input.actor,
  })
  return warnings.length === 0 ? object : { ...object, warnings: [...warnings] }
}

/** The text that would be submitted, with every check of a submission. */
export async function renderTemplate(deps: Deps, input: Instantiation): Promise<RenderedTemplate> {
  const { text, warnings } = await render(deps, input)
  return { yaml_content: text, warnings: [...warnings] }
}

async function render(deps: Deps, input: Instantiation) {
  const { id, version, parameters_schema: schema } = await findTemplate(deps.sql, input)
  await requireMatch(deps.sql, input)
  const source = await readSource(deps, id)
  const parameters = JSON.stringify(input.parameters ?? null)
  const renderedAt = new Date(deps.clock.now()).toISOString()
  const text = await deps.templates.render({ source, schema, parameters, renderedAt, outputBytesMax: input.outputBytesMax })
  const { warnings } = await deps.manifests.check(text, input.validation)
  return { id, version, parameters, renderedAt, text, warnings }
}

async function findTemplate(sql: Sql, { templateId, generatorId }: Instantiation): Promise<stackTemplates.TemplateRow> {
  const template = await stackTemplates.get(sql, { id: templateId })
  if (template === null || template.deleted_at !== null) throw new ApiError('template_not_found', 'no such template')
  if (generatorId !== null && template.generator_id !== null && template.generator_id !== generatorId)
    throw new ApiError('template_not_accessible', 'the template belongs to another generator')
  return template
}

async function requireMatch(sql: Sql, { stackId, templateId }: Instantiation): Promise<void> {
  const [stackLabels, stackAnnotations, ownLabels, ownAnnotations] = await Promise.all([
    labels.ofStack(sql, { stack_id: stackId }),
    annotations.ofStack(sql, { stack_id: stackId }),
    templateLabels.listLabels(sql, { template_id: templateId }),
    templateLabels.listAnnotations(sql, { template_id: templateId }),
  ])
  const mismatch = findMismatch({ labels: ownLabels, annotations: ownAnnotations }, { labels: stackLabels, annotations: stackAnnotations })
  if (mismatch === null) return
  throw new ApiError('template_stack_mismatch', 'the stack lacks labels or annotations that the template requires', {
    details: { ...mismatch },
  })
}

/** A version that was deleted meanwhile can still be rendered: the request began before. */
async function readSource({ sql, seal }: Pick<Deps, 'sql' | 'seal'>, id: string): Promise<string> {
  const [row] = await stackTemplates.listSealed(sql, { ids: [id] })
  if (row === undefined) throw new ApiError('template_not_found', 'no such template')
  return seal.open(toTemplateContext(id), row.template_sealed)
}
