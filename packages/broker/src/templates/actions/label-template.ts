// Adds or removes a label or an annotation of one version of a template.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { TemplateAnnotation, TemplateLabel } from '@brokkr/contract/templates/template.ts'
import type { Sql } from '@brokkr/postgres'
import type { z } from 'zod'
import { annotationsMax } from '../../agents/actions/annotate-agent.ts'
import { labelsMax } from '../../agents/actions/label-agent.ts'
import { recordAuditEntry } from '../../audit/record.ts'
import type { Actor } from '../../audit/rules.ts'
import { requireAnnotation, requireLabel } from '../../rules/names.ts'
import { uuid7 } from '../../rules/uuid7.ts'
import * as templateLabels from '../store/template-labels.ts'
import { requireLiveTemplate } from './create-template.ts'

interface Change {
  readonly templateId: string
  readonly actor: Actor
}
type Deps = { sql: Sql }

export function addTemplateLabel(deps: Deps, input: Change & { readonly label: string }): Promise<z.output<typeof TemplateLabel>> {
  const label = requireLabel(input.label)
  return changeTemplate(deps, input, { action: 'template.label_added', details: { label } }, async (sql) => {
    const { labels } = await templateLabels.countBoth(sql, { template_id: input.templateId })
    requireRoom('labels', labels, labelsMax)
    return templateLabels.addLabel(sql, { id: uuid7(), template_id: input.templateId, label })
  })
}

export function removeTemplateLabel(deps: Deps, input: Change & { readonly label: string }): Promise<void> {
  const { templateId, label } = input
  return changeTemplate(deps, input, { action: 'template.label_removed', details: { label } }, async (sql) => {
    if ((await templateLabels.removeLabel(sql, { template_id: templateId, label })) === 0)
      throw new ApiError('template_label_not_found', 'the template does not have this label')
  })
}

export function addTemplateAnnotation(
  deps: Deps,
  input: Change & { readonly key: string; readonly value: string },
): Promise<z.output<typeof TemplateAnnotation>> {
  const { templateId, key, value } = input
  requireAnnotation(key, value)
  // As in the first version, which allows whitespace in the values of agents and stacks only.
  if (/\s/u.test(value)) throw new ApiError('invalid_annotation', 'an annotation value of a template has no whitespace')
  return changeTemplate(deps, input, { action: 'template.annotation_added', details: { key } }, async (sql) => {
    const { annotations } = await templateLabels.countBoth(sql, { template_id: templateId })
    requireRoom('annotations', annotations, annotationsMax)
    return templateLabels.addAnnotation(sql, { id: uuid7(), template_id: templateId, key, value })
  })
}

export function removeTemplateAnnotation(deps: Deps, input: Change & { readonly key: string }): Promise<void> {
  const { templateId, key } = input
  return changeTemplate(deps, input, { action: 'template.annotation_removed', details: { key } }, async (sql) => {
    if ((await templateLabels.removeAnnotation(sql, { template_id: templateId, key })) === 0)
      throw new ApiError('template_annotation_not_found', 'the template has no annotation with this key')
  })
}

/** The lock of the template makes the count exact. */
function changeTemplate<T>(
  { sql }: Deps,
  { templateId, actor }: Change,
  entry: { readonly action: string; readonly details: Readonly<Record<string, unknown>> },
  change: (tx: Sql) => Promise<T>,
): Promise<T> {
  return sql.begin(async (tx) => {
    await requireLiveTemplate(tx, templateId)
    const result = await change(tx)
    await recordAuditEntry(tx, { actor, resource: { type: 'template', id: templateId }, ...entry })
    return result
  })
}

function requireRoom(what: string, count: number, max: number): void {
  if (count >= max) throw new ApiError('limit_exceeded', `a template has at most ${max} ${what}`, { details: { limit: max } })
}
