// What an informer does after a failure: where it goes on, and whether it waits first. Pure.
import { hasReason } from './api-error.ts'

export interface AfterFailure {
  /** Watch on from the last position; otherwise a new list. */
  resume: boolean
  /** Wait before the next try. */
  pause: boolean
  /** Whether lists may still come as a stream. */
  streams: boolean
}

export function afterFailure(error: unknown, before: { listing: boolean; streams: boolean; failures: number }): AfterFailure {
  const refused = before.listing && before.streams && hasReason(error, 'Invalid', 'BadRequest', 'TimedOut')
  // Nothing is wrong with a server that forgot our position, or that cannot stream lists: the other way is tried at once, the first time.
  const harmless = hasReason(error, 'Expired', 'Gone') || refused
  return {
    resume:
      !before.listing &&
      hasReason(error, 'Unreachable', 'TimedOut', 'TooManyRequests', 'ServiceUnavailable', 'InternalError', 'ServerTimeout', 'Timeout'),
    pause: !harmless || before.failures > 0,
    // Older servers refuse the streamed list; one that is behind may never finish it. Pages work everywhere.
    streams: before.streams && !refused,
  }
}
