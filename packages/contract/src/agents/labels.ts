// Labels and annotations of agents. A label or annotation that an agent shares with a stack creates a target.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { AgentId, AnnotationKey, AnnotationValue, byId, Label } from '../wire.ts'
import { AgentAnnotation, AgentLabel } from './agent.ts'

const params = byId(AgentId)

export const agentsListLabels = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/labels',
  summary: 'List labels of an agent, oldest first',
  params,
  success: 200,
  response: z.array(AgentLabel),
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})

export const agentsAddLabel = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/labels',
  summary: 'Add a label to an agent; stacks with the same label target it',
  params,
  body: z.object({ agent_id: AgentId, label: Label }),
  success: 201,
  response: AgentLabel,
  errors: ['agent_id_mismatch', 'invalid_label', 'unique_violation', 'foreign_key_violation', 'limit_exceeded'],
})

export const agentsRemoveLabel = endpoint({
  method: 'DELETE',
  path: '/api/v1/agents/{id}/labels/{label}',
  summary: 'Remove a label from an agent',
  params: z.object({ id: AgentId, label: Label }),
  success: 204,
  errors: ['agent_label_not_found'],
})

export const agentsListAnnotations = endpoint({
  method: 'GET',
  path: '/api/v1/agents/{id}/annotations',
  summary: 'List annotations of an agent by key',
  params,
  success: 200,
  response: z.array(AgentAnnotation),
  errors: ['agent_not_found', 'agent_pak_mismatch'],
})

export const agentsAddAnnotation = endpoint({
  method: 'POST',
  path: '/api/v1/agents/{id}/annotations',
  summary: 'Add an annotation to an agent, one value per key; stacks with the same key and value target it',
  params,
  body: z.object({ agent_id: AgentId, key: AnnotationKey, value: AnnotationValue }),
  success: 201,
  response: AgentAnnotation,
  errors: ['agent_id_mismatch', 'invalid_annotation', 'unique_violation', 'foreign_key_violation', 'limit_exceeded'],
})

export const agentsRemoveAnnotation = endpoint({
  method: 'DELETE',
  path: '/api/v1/agents/{id}/annotations/{key}',
  summary: 'Remove an annotation from an agent',
  params: z.object({ id: AgentId, key: AnnotationKey }),
  success: 204,
  errors: ['agent_annotation_not_found'],
})
