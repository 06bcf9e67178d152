// Routes of templates: templates and their versions, deployment objects from them, labels and annotations.
import type { StackTemplate } from '@brokkr/contract/templates/template.ts'
import type { BrokerDeps } from '../deps.ts'
import { toActor } from '../http/request/actor.ts'
import { includesDeleted } from '../http/request/query.ts'
import { parsePrecondition, respondWithTag, setEtag } from '../http/response/etag.ts'
import { byTemplateOwner } from '../http/response/list-order.ts'
import { page } from '../http/response/paging.ts'
import type { Handler } from '../http/server/handler.ts'
import { UnsealFailed } from '../seal.ts'
import { createTemplate, deleteTemplate, toTemplate, updateTemplate } from './actions/create-template.ts'
import { instantiateTemplate, renderTemplate } from './actions/instantiate-template.ts'
import { addTemplateAnnotation, addTemplateLabel, removeTemplateAnnotation, removeTemplateLabel } from './actions/label-template.ts'
import { lintTemplate } from './actions/lint-template.ts'
import * as stackTemplates from './store/stack-templates.ts'
import { toTemplateContext } from './store/stack-templates.ts'
import * as templateLabels from './store/template-labels.ts'

export const handleList: Handler<'listTemplates', BrokerDeps> = async (deps, request) => {
  const { principal, query } = request
  const filter = { name: query.name ?? null, with_deleted: includesDeleted(request, 'owners') }
  const rows = await page(request, byTemplateOwner, {
    name: 'listTemplates',
    cap: 1000,
    read: ({ after: [after_owner, after_name, after_version], limit }) => {
      const slots = { ...filter, after_owner, after_name, after_version, limit }
      if (principal.kind !== 'generator') return stackTemplates.list(deps.sql, slots)
      return stackTemplates.listVisible(deps.sql, { ...slots, owner_id: principal.id })
    },
    bytesOf: ({ template_bytes, parameters_schema, description }) =>
      1024 + template_bytes + parameters_schema.length + (description?.length ?? 0),
  })
  return openTemplates(deps, rows)
}

export const handleCreate: Handler<'createTemplate', BrokerDeps> = (deps, request) => {
  const { name, description, template_content: content, parameters_schema: schema } = request.body
  const generatorId = request.principal.kind === 'generator' ? request.principal.id : null
  return createTemplate(deps, { name, description, content, schema, generatorId, actor: toActor(request) })
}

export const handleLint: Handler<'lintTemplate', BrokerDeps> = (deps, { body }) =>
  lintTemplate(deps, {
    content: body.template_content,
    schema: body.parameters_schema,
    parameters: body.parameters,
    validation: deps.config.broker.manifest_validation,
    outputBytesMax: deps.config.limits.object_body_bytes,
  })

export const handleGet: Handler<'getTemplate', BrokerDeps> = async (deps, request) => {
  const row = request.found as stackTemplates.TemplateRow
  const [template] = await openTemplates(deps, [row])
  return respondWithTag(request, `W/"${row.updated_at}"`, () => template as StackTemplate)
}

export const handleUpdate: Handler<'updateTemplate', BrokerDeps> = async (deps, request) => {
  const { description, template_content: content, parameters_schema: schema } = request.body
  const change = { templateId: request.params.id, description, content, schema, actor: toActor(request) }
  return setEtag(request, await updateTemplate(deps, { ...change, precondition: parsePrecondition(request) }))
}

export const handleDelete: Handler<'deleteTemplate', BrokerDeps> = (deps, request) =>
  deleteTemplate(deps, { templateId: request.params.id, actor: toActor(request) })

export const handleInstantiate: Handler<'instantiateTemplate', BrokerDeps> = async (deps, request) => {
  const { template_id: templateId, parameters } = request.body
  const input = {
    stackId: request.params.stack_id,
    templateId,
    parameters,
    generatorId: request.principal.kind === 'generator' ? request.principal.id : null,
    validation: deps.config.broker.manifest_validation,
    outputBytesMax: deps.config.limits.object_body_bytes,
    actor: toActor(request),
  }
  if (!request.query.dry_run) return instantiateTemplate(deps, input)
  request.reply.setStatus(200)
  return renderTemplate(deps, input)
}

/** Sources are read after the page is cut, so that no answer of the database is larger than a page. */
async function openTemplates(
  { sql, seal }: Pick<BrokerDeps, 'sql' | 'seal'>,
  rows: readonly stackTemplates.TemplateRow[],
): Promise<StackTemplate[]> {
  const sealed = rows.length === 0 ? [] : await stackTemplates.listSealed(sql, { ids: rows.map(({ id }) => id) })
  const sources = new Map(sealed.map(({ id, template_sealed }) => [id, seal.open(toTemplateContext(id), template_sealed)]))
  return rows.map((row) => toTemplate(row, sources.get(row.id) ?? failMissing(row.id)))
}

function failMissing(id: string): never {
  throw new UnsealFailed(`the source of template ${id} is missing`)
}

export const handleListLabels: Handler<'templatesListLabels', BrokerDeps> = ({ sql }, { params }) =>
  templateLabels.listLabels(sql, { template_id: params.id })

export const handleAddLabel: Handler<'templatesAddLabel', BrokerDeps> = (deps, request) =>
  addTemplateLabel(deps, { templateId: request.params.id, label: request.body, actor: toActor(request) })

export const handleRemoveLabel: Handler<'templatesRemoveLabel', BrokerDeps> = (deps, request) =>
  removeTemplateLabel(deps, { templateId: request.params.id, label: request.params.label, actor: toActor(request) })

export const handleListAnnotations: Handler<'templatesListAnnotations', BrokerDeps> = ({ sql }, { params }) =>
  templateLabels.listAnnotations(sql, { template_id: params.id })

export const handleAddAnnotation: Handler<'templatesAddAnnotation', BrokerDeps> = (deps, request) =>
  addTemplateAnnotation(deps, { templateId: request.params.id, ...request.body, actor: toActor(request) })

export const handleRemoveAnnotation: Handler<'templatesRemoveAnnotation', BrokerDeps> = (deps, request) =>
  removeTemplateAnnotation(deps, { templateId: request.params.id, key: request.params.key, actor: toActor(request) })
