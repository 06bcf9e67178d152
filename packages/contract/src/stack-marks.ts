// Labels and annotations of stacks: agents that carry an equal one take the stack.
import { z } from 'zod'
import { endpoint } from './endpoint.ts'
import { StackAnnotation, StackLabel } from './stack.ts'
import { AnnotationKey, AnnotationValue, byId, Label, StackId } from './wire.ts'

const params = byId(StackId)

export const stacksListLabels = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/labels',
  summary: 'Labels of a stack, oldest first',
  params,
  success: 200,
  response: z.array(StackLabel),
  errors: ['stack_not_found', 'stack_not_accessible'],
})

export const stacksAddLabel = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/labels',
  summary: 'Label a stack; agents with the same label take it. The body is a bare JSON string',
  params,
  body: Label,
  success: 201,
  response: StackLabel,
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_label', 'unique_violation', 'limit_exceeded'],
})

export const stacksRemoveLabel = endpoint({
  method: 'DELETE',
  path: '/api/v1/stacks/{id}/labels/{label}',
  summary: 'Take a label off a stack',
  params: z.object({ id: StackId, label: Label }),
  success: 204,
  errors: ['stack_not_found', 'stack_not_owned', 'stack_label_not_found'],
})

export const stacksListAnnotations = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/annotations',
  summary: 'Annotations of a stack, by key',
  params,
  success: 200,
  response: z.array(StackAnnotation),
  errors: ['stack_not_found', 'stack_not_accessible'],
})

export const stacksAddAnnotation = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/annotations',
  summary: 'Annotate a stack, one value per key; agents with the same pair take it',
  params,
  body: z.object({ stack_id: StackId, key: AnnotationKey, value: AnnotationValue }),
  success: 201,
  response: StackAnnotation,
  errors: ['stack_not_found', 'stack_not_owned', 'stack_id_mismatch', 'invalid_annotation', 'unique_violation', 'limit_exceeded'],
})

export const stacksRemoveAnnotation = endpoint({
  method: 'DELETE',
  path: '/api/v1/stacks/{id}/annotations/{key}',
  summary: 'Take an annotation off a stack',
  params: z.object({ id: StackId, key: AnnotationKey }),
  success: 204,
  errors: ['stack_not_found', 'stack_not_owned', 'stack_annotation_not_found'],
})
