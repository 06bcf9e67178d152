// What an event of an agent may be, and what it says about the pair of agent and stack.
import { ApiError } from '@brokkr/contract/error.ts'

interface EventWords {
  readonly event_type: string
  readonly status: string
}

export function eventFault({ event_type, status }: EventWords): ApiError | null {
  const wrong =
    event_type === '' || event_type.length > 50
      ? { path: 'event_type', message: 'has 1 to 50 characters' }
      : status === '' || status.length > 10
        ? { path: 'status', message: 'has 1 to 10 characters' }
        : null
  return wrong === null ? null : new ApiError('validation_failed', `${wrong.path} ${wrong.message}`, { details: { errors: [wrong] } })
}

/** The stack's objects are gone from the cluster: said outright, or by success of whatever kind on a deletion marker, which is how
 *  agents say it that know no other words. */
export const saysRemoved = ({ event_type, status }: EventWords, isMarker: boolean): boolean =>
  status.toUpperCase() === 'SUCCESS' && (event_type === 'DELETED' || isMarker)
