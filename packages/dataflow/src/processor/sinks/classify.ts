// Chooses the reaction to a failed write from the class of the error and the attempts so far. Pure.
import { errorText } from '@brokkr/runtime/errors.ts'
import { ConnectorError } from '../../connectors/connector.ts'

/** retry: write the same batch again · bisect: find the bad records · end: fenced, or out of retries. */
export type FailureReaction =
  | { readonly do: 'retry' }
  | { readonly do: 'bisect' }
  | { readonly do: 'end'; readonly why: 'fenced' | 'retries' }

export interface AttemptHistory {
  /** Consecutive failures of this batch, including this one. */
  readonly failures: number
  /** The batch was bisected and every single record failed, so no record is at fault. */
  readonly allFailed: boolean
  /** PROCESSOR_SINK_ERROR_MAX_RETRIES; 0: no limit. */
  readonly retriesMax: number
}

/** Attempts with an unknown error before the batch is bisected. */
const unknownErrorAttempts = 5

export function chooseReaction(error: ConnectorError, tries: AttemptHistory): FailureReaction {
  if (error.class === 'fenced') return { do: 'end', why: 'fenced' }
  if (error.class === 'record' && !tries.allFailed) return { do: 'bisect' }
  if (error.class === 'unknown' && !tries.allFailed && tries.failures >= unknownErrorAttempts) return { do: 'bisect' }
  if (tries.retriesMax > 0 && tries.failures > tries.retriesMax) return { do: 'end', why: 'retries' }
  return { do: 'retry' }
}

/** Wraps an error that is no ConnectorError as class unknown. */
export function toConnectorError(thrown: unknown): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  return new ConnectorError({ class: 'unknown', type: 'unknown' }, errorText(thrown), { cause: thrown })
}
