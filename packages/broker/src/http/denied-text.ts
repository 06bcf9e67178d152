// What a person reads beside the code of a refusal: which key would do. Nothing of the thing itself.
import type { ErrorCode } from '@brokkr/contract/error.ts'

export const deniedText = (code: ErrorCode): string => texts[code] ?? 'this key may not do that'

const texts: Partial<Record<ErrorCode, string>> = {
  admin_required: 'an admin key is needed',
  readonly: 'this key is read-only; use one that may change things',
  scope_denied: 'the scope of this key lacks the verb that this operation needs',
  forbidden: 'this kind of key may not call this operation',
  generator_required: 'an admin or generator key is needed',
  generator_inactive: 'this generator is inactive and may only read; an admin can activate it',
  generator_not_owned: 'the key is not that of this generator',
  not_authorized: 'an admin key or that of this generator is needed',
  not_found: 'nothing has this id',
  agent_pak_mismatch: 'the key is not that of this agent',
  stack_not_owned: 'the stack belongs to another generator',
  stack_not_accessible: 'the stack is neither owned by this caller nor targeted at it',
  stacks_list_denied: 'an admin or generator key is needed to list stacks',
  stack_create_denied: 'an admin or generator key is needed to create a stack',
  stack_generator_mismatch: 'a generator creates stacks for itself only',
  target_generator_mismatch: 'a generator targets its own stacks only',
  target_create_denied: 'an admin key or that of the owning generator is needed',
  agent_not_associated: 'the object is not targeted at this agent',
  generator_not_associated: 'the object belongs to another generator',
  template_not_accessible: 'the template is that of another generator',
  template_not_owned: 'the template belongs to somebody else',
  templates_not_accessible: 'an admin or generator key is needed for templates',
  work_order_not_claimed_by_agent: 'the work order is not claimed by this caller',
  agent_pak_required: 'the key of an agent is needed',
  diagnostic_not_owned: 'the diagnostic is another agent’s',
  agent_not_found: 'no agent has this id',
  generator_not_found: 'no generator has this id',
  stack_not_found: 'no stack has this id',
  deployment_object_not_found: 'no deployment object has this id',
}
