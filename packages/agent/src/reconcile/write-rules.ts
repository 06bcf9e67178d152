// As whom and how strictly the agent writes the objects of stacks: the same for a trial, a comparison and the write itself.
import type { WriteRules } from '@brokkr/kube/apply-object.ts'
import type { ReconcileDeps } from './deps.ts'
import { EARLIER_MANAGERS, FIELD_MANAGER } from './marks.ts'

export const writeRules = ({ fieldValidation }: ReconcileDeps['settings'], signal: AbortSignal) =>
  ({ fieldManager: FIELD_MANAGER, migrateFrom: EARLIER_MANAGERS, fieldValidation, signal }) satisfies WriteRules
