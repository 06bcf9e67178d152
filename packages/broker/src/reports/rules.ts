// Limits of agent events, and which events report a removal.
import { ApiError } from '@brokkr/contract/errors.ts'

interface EventFields {
  readonly event_type: string
  readonly status: string
}

export function findEventError({ event_type, status }: EventFields): ApiError | null {
  const problem =
    event_type === '' || event_type.length > 50
      ? { path: 'event_type', message: 'has 1 to 50 characters' }
      : status === '' || status.length > 10
        ? { path: 'status', message: 'has 1 to 10 characters' }
        : null
  return problem === null
    ? null
    : new ApiError('validation_failed', `${problem.path} ${problem.message}`, { details: { errors: [problem] } })
}

/** The stack's objects were removed from the cluster. Reported by a DELETED event, or by any success on a deletion marker, which is how
 *  first-version agents report it. */
export const saysRemoved = ({ event_type, status }: EventFields, isMarker: boolean): boolean =>
  status.toUpperCase() === 'SUCCESS' && (event_type === 'DELETED' || isMarker)
