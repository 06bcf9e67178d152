// Labels and annotations of templates. A stack must have all of them to use the template.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AnnotationKey, AnnotationValue, byId, Label, Uuid } from '../wire.ts'
import { TemplateAnnotation, TemplateLabel } from './template.ts'

const params = byId(Uuid)

export const templatesListLabels = endpoint({
  method: 'GET',
  path: '/api/v1/templates/{id}/labels',
  summary: 'List labels of a template, oldest first',
  params,
  success: 200,
  response: z.array(TemplateLabel),
  errors: ['template_not_found', 'template_not_accessible'],
})

export const templatesAddLabel = endpoint({
  method: 'POST',
  path: '/api/v1/templates/{id}/labels',
  summary: 'Add a label to a template. The body is a JSON string',
  params,
  body: Label,
  success: 201,
  response: TemplateLabel,
  errors: ['template_not_found', 'template_not_owned', 'invalid_label', 'unique_violation', 'limit_exceeded'],
})

export const templatesRemoveLabel = endpoint({
  method: 'DELETE',
  path: '/api/v1/templates/{id}/labels/{label}',
  summary: 'Remove a label from a template',
  params: z.object({ id: Uuid, label: Label }),
  success: 204,
  errors: ['template_not_found', 'template_not_owned', 'template_label_not_found'],
})

export const templatesListAnnotations = endpoint({
  method: 'GET',
  path: '/api/v1/templates/{id}/annotations',
  summary: 'List annotations of a template by key',
  params,
  success: 200,
  response: z.array(TemplateAnnotation),
  errors: ['template_not_found', 'template_not_accessible'],
})

export const templatesAddAnnotation = endpoint({
  method: 'POST',
  path: '/api/v1/templates/{id}/annotations',
  summary: 'Add an annotation to a template, one value per key',
  params,
  body: z.object({ key: AnnotationKey, value: AnnotationValue }),
  success: 201,
  response: TemplateAnnotation,
  errors: ['template_not_found', 'template_not_owned', 'invalid_annotation', 'unique_violation', 'limit_exceeded'],
})

export const templatesRemoveAnnotation = endpoint({
  method: 'DELETE',
  path: '/api/v1/templates/{id}/annotations/{key}',
  summary: 'Remove an annotation from a template',
  params: z.object({ id: Uuid, key: AnnotationKey }),
  success: 204,
  errors: ['template_not_found', 'template_not_owned', 'template_annotation_not_found'],
})
