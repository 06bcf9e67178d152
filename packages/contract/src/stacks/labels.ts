// Labels and annotations of stacks. A label or annotation that a stack shares with an agent creates a target.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AnnotationKey, AnnotationValue, byId, Label, StackId } from '../wire.ts'
import { StackAnnotation, StackLabel } from './stack.ts'

const params = byId(StackId)

export const stacksListLabels = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/labels',
  summary: 'List labels of a stack, oldest first',
  params,
  success: 200,
  response: z.array(StackLabel),
  errors: ['stack_not_found', 'stack_not_accessible'],
})

export const stacksAddLabel = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/labels',
  summary: 'Add a label to a stack; the stack targets agents with the same label. The body is a JSON string',
  params,
  body: Label,
  success: 201,
  response: StackLabel,
  errors: ['stack_not_found', 'stack_not_owned', 'invalid_label', 'unique_violation', 'limit_exceeded'],
})

export const stacksRemoveLabel = endpoint({
  method: 'DELETE',
  path: '/api/v1/stacks/{id}/labels/{label}',
  summary: 'Remove a label from a stack',
  params: z.object({ id: StackId, label: Label }),
  success: 204,
  errors: ['stack_not_found', 'stack_not_owned', 'stack_label_not_found'],
})

export const stacksListAnnotations = endpoint({
  method: 'GET',
  path: '/api/v1/stacks/{id}/annotations',
  summary: 'List annotations of a stack by key',
  params,
  success: 200,
  response: z.array(StackAnnotation),
  errors: ['stack_not_found', 'stack_not_accessible'],
})

export const stacksAddAnnotation = endpoint({
  method: 'POST',
  path: '/api/v1/stacks/{id}/annotations',
  summary: 'Add an annotation to a stack, one value per key; the stack targets agents with the same key and value',
  params,
  body: z.object({ stack_id: StackId, key: AnnotationKey, value: AnnotationValue }),
  success: 201,
  response: StackAnnotation,
  errors: ['stack_not_found', 'stack_not_owned', 'stack_id_mismatch', 'invalid_annotation', 'unique_violation', 'limit_exceeded'],
})

export const stacksRemoveAnnotation = endpoint({
  method: 'DELETE',
  path: '/api/v1/stacks/{id}/annotations/{key}',
  summary: 'Remove an annotation from a stack',
  params: z.object({ id: StackId, key: AnnotationKey }),
  success: 204,
  errors: ['stack_not_found', 'stack_not_owned', 'stack_annotation_not_found'],
})
