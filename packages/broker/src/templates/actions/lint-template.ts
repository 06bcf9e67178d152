// Checks a template that is not stored: syntax, schema and, with parameters, the text that it renders to.
import type { LintedTemplate } from '@brokkr/contract/templates/template.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { ManifestWork, Validation } from '../../deployments/rules/manifest-job.ts'
import type { TemplateWork } from '../rules/template-job.ts'

export interface LintInput {
  readonly content: string
  readonly schema: string
  /** As sent; undefined: only syntax and schema are checked. */
  readonly parameters: unknown
  readonly validation: Validation
  readonly outputBytesMax: number
}

export async function lintTemplate(
  deps: { clock: Clock; templates: TemplateWork; manifests: ManifestWork },
  { content, schema, parameters, validation, outputBytesMax }: LintInput,
): Promise<LintedTemplate> {
  await deps.templates.check(content, schema)
  if (parameters === undefined) return { yaml_content: null, warnings: [] }
  const renderedAt = new Date(deps.clock.now()).toISOString()
  const rendering = { source: content, schema, parameters: JSON.stringify(parameters), renderedAt, outputBytesMax }
  const text = await deps.templates.render(rendering)
  const { warnings } = await deps.manifests.check(text, validation)
  return { yaml_content: text, warnings: [...warnings] }
}
