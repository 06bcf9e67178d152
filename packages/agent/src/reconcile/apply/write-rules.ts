// Field manager and validation for objects of stacks, equal for dry run, comparison and write.
import type { WriteRules } from '@brokkr/kube'
import type { ReconcileDeps } from '../deps.ts'
import { EARLIER_MANAGERS, FIELD_MANAGER } from '../plan/ownership-metadata.ts'

export const writeRules = ({ fieldValidation }: ReconcileDeps['settings'], signal: AbortSignal) =>
  ({ fieldManager: FIELD_MANAGER, migrateFrom: EARLIER_MANAGERS, fieldValidation, signal }) satisfies WriteRules
