// Labels and annotations of templates: a stack must carry all of them to take the template.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { TemplateAnnotation, TemplateLabel } from './template.ts'
import { AnnotationKey, AnnotationValue, byId, Label, Uuid } from './wire.ts'

const params = byId(Uuid)

export const templatesListLabels = endpoint({
  method: 'GET',
  path: '/api/v1/templates/{id}/labels',
  summary: 'Labels of a template, oldest first',
  params,
  success: 200,
  response: z.array(TemplateLabel),
  errors: ['template_not_found', 'template_not_accessible'],
})

export const templatesAddLabel = endpoint({
  method: 'POST',
  path: '/api/v1/templates/{id}/labels',
  summary: 'Label a template. The body is a bare JSON string',
  params,
  body: Label,
  success: 201,
  response: TemplateLabel,
  errors: ['template_not_found', 'template_not_owned', 'invalid_label', 'unique_violation', 'limit_exceeded'],
})

export const templatesRemoveLabel = endpoint({
  method: 'DELETE',
  path: '/api/v1/templates/{id}/labels/{label}',
  summary: 'Take a label off a template',
  params: z.object({ id: Uuid, label: Label }),
  success: 204,
  errors: ['template_not_found', 'template_not_owned', 'template_label_not_found'],
})

export const templatesListAnnotations = endpoint({
  method: 'GET',
  path: '/api/v1/templates/{id}/annotations',
  summary: 'Annotations of a template, by key',
  params,
  success: 200,
  response: z.array(TemplateAnnotation),
  errors: ['template_not_found', 'template_not_accessible'],
})

export const templatesAddAnnotation = endpoint({
  method: 'POST',
  path: '/api/v1/templates/{id}/annotations',
  summary: 'Annotate a template, one value per key',
  params,
  body: z.object({ key: AnnotationKey, value: AnnotationValue }),
  success: 201,
  response: TemplateAnnotation,
  errors: ['template_not_found', 'template_not_owned', 'invalid_annotation', 'unique_violation', 'limit_exceeded'],
})

export const templatesRemoveAnnotation = endpoint({
  method: 'DELETE',
  path: '/api/v1/templates/{id}/annotations/{key}',
  summary: 'Take an annotation off a template',
  params: z.object({ id: Uuid, key: AnnotationKey }),
  success: 204,
  errors: ['template_not_found', 'template_not_owned', 'template_annotation_not_found'],
})
