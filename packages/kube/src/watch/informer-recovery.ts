// Decides how an informer continues after a failure. Pure.
import { hasReason } from '../client/kube-error.ts'

export interface AfterFailure {
  /** Resume the watch at the last position; otherwise list again. */
  resume: boolean
  /** Wait before the next attempt. */
  pause: boolean
  /** Whether lists may still be streamed. */
  streams: boolean
}

export function planRecovery(error: unknown, before: { listing: boolean; streams: boolean; failures: number }): AfterFailure {
  const refused = before.listing && before.streams && hasReason(error, 'Invalid', 'BadRequest', 'TimedOut')
  // An expired position or a server without streamed lists is not a fault: the first time, the alternative is tried without a wait.
  const harmless = hasReason(error, 'Expired', 'Gone') || refused
  return {
    resume:
      !before.listing &&
      hasReason(error, 'Unreachable', 'TimedOut', 'TooManyRequests', 'ServiceUnavailable', 'InternalError', 'ServerTimeout', 'Timeout'),
    pause: !harmless || before.failures > 0,
    // Older servers refuse the streamed list, and an overloaded one may never finish it. Pages always work.
    streams: before.streams && !refused,
  }
}
