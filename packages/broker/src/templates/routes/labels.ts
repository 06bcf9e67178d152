// Labels and annotations of templates.
import type { BrokerDeps } from '../../deps.ts'
import { toActor } from '../../http/request/actor.ts'
import type { Handler } from '../../http/server/handler.ts'
import { addTemplateAnnotation, addTemplateLabel, removeTemplateAnnotation, removeTemplateLabel } from '../actions/label-template.ts'
import * as templateLabels from '../store/template-labels.ts'

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
