// What is done about a write that failed. Pure: the error's class and what was tried before decide.
import { errorText } from '@brokkr/runtime/errors.ts'
import { ConnectorError } from './connectors/connector.ts'

/** retry: the same batch again · bisect: find the guilty records · end: another took over, or retries are bounded and used up. */
export type Reaction = { readonly do: 'retry' } | { readonly do: 'bisect' } | { readonly do: 'end'; readonly why: 'fenced' | 'retries' }

export interface Tries {
  /** Failures of this batch in a row, this one included. */
  readonly failures: number
  /** Whether the batch was bisected and every single record failed: then no record is at fault. */
  readonly allFailed: boolean
  /** PROCESSOR_SINK_ERROR_MAX_RETRIES; 0: no bound. */
  readonly retriesMax: number
}

/** Tries of an error nobody knows before single records are looked at. */
export const unknownTries = 5

export function reactTo(error: ConnectorError, tries: Tries): Reaction {
  if (error.class === 'fenced') return { do: 'end', why: 'fenced' }
  if (error.class === 'record' && !tries.allFailed) return { do: 'bisect' }
  if (error.class === 'unknown' && !tries.allFailed && tries.failures >= unknownTries) return { do: 'bisect' }
  if (tries.retriesMax > 0 && tries.failures > tries.retriesMax) return { do: 'end', why: 'retries' }
  return { do: 'retry' }
}

/** Whatever a connector threw, as one of ours. */
export function connectorErrorOf(thrown: unknown): ConnectorError {
  if (thrown instanceof ConnectorError) return thrown
  return new ConnectorError({ class: 'unknown', type: 'unknown' }, errorText(thrown), { cause: thrown })
}
