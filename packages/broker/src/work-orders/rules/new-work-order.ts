// Checks and completes the request for a work order. Pure.
import { ApiError } from '@brokkr/contract/errors.ts'
import { requireAnnotation, requireLabel } from '../../rules/names.ts'

export interface SentWorkOrder {
  readonly work_type: string
  readonly yaml_content: string
  readonly max_retries?: number | null | undefined
  readonly backoff_seconds?: number | null | undefined
  readonly claim_timeout_seconds?: number | null | undefined
  readonly targeting?: SentTargeting | null | undefined
  readonly target_agent_ids?: readonly string[] | null | undefined
}
interface SentTargeting {
  readonly agent_ids?: readonly string[] | null | undefined
  readonly labels?: readonly string[] | null | undefined
  readonly annotations?: Readonly<Record<string, string>> | null | undefined
  readonly match?: 'any' | 'all' | null | undefined
}

/** Everything but the text; stored with the order, so that a finished one can be created again. */
export interface WorkOrderRequest {
  readonly max_retries: number
  readonly backoff_seconds: number
  readonly claim_timeout_seconds: number
  readonly match: 'any' | 'all'
  readonly agent_ids: readonly string[]
  readonly labels: readonly string[]
  readonly annotations: Readonly<Record<string, string>>
}

const targetsMax = 1000

export function checkWorkOrder(sent: SentWorkOrder): WorkOrderRequest {
  const { work_type, yaml_content } = sent
  if (work_type === '' || work_type.length > 50) throw invalid('work_type', 'must have 1 to 50 characters')
  if (yaml_content === '') throw invalid('yaml_content', 'must not be empty')
  return {
    max_retries: requireRange('max_retries', sent.max_retries ?? 3, [0, 100]),
    backoff_seconds: requireRange('backoff_seconds', sent.backoff_seconds ?? 60, [1, 86_400]),
    claim_timeout_seconds: requireRange('claim_timeout_seconds', sent.claim_timeout_seconds ?? 3600, [1, 604_800]),
    ...checkTargeting(sent),
  }
}

function checkTargeting({ targeting, target_agent_ids }: SentWorkOrder): Pick<WorkOrderRequest, 'match' | keyof typeof noCriteria> {
  const agent_ids = [...new Set([...(targeting?.agent_ids ?? []), ...(target_agent_ids ?? [])])]
  const labels = [...new Set(targeting?.labels)]
  const annotations = targeting?.annotations ?? {}
  const criteria = agent_ids.length + labels.length + Object.keys(annotations).length
  if (criteria === 0)
    throw new ApiError('no_targeting_specified', 'a work order needs at least one agent id, label or annotation in `targeting`')
  if (criteria > targetsMax) throw invalid('targeting', `must have at most ${targetsMax} agent ids, labels and annotations together`)
  asInvalid('targeting.labels', () => labels.forEach(requireLabel))
  asInvalid('targeting.annotations', () => {
    for (const [key, value] of Object.entries(annotations)) requireAnnotation(key, value)
  })
  return { match: targeting?.match ?? 'any', agent_ids, labels, annotations }
}

const noCriteria = { agent_ids: [], labels: [], annotations: {} }

/** Without the agents that were deleted since; null if no criterion is left. */
export function keepLiveAgents(request: WorkOrderRequest, liveIds: ReadonlySet<string>): WorkOrderRequest | null {
  const agent_ids = request.agent_ids.filter((id) => liveIds.has(id))
  const hasCriterion = agent_ids.length > 0 || request.labels.length > 0 || Object.keys(request.annotations).length > 0
  return hasCriterion ? { ...request, agent_ids } : null
}

function requireRange(field: string, value: number, [min, max]: readonly [number, number]): number {
  if (value < min || value > max) throw invalid(field, `must be between ${min} and ${max}`)
  return value
}

function asInvalid(path: string, check: () => void): void {
  try {
    check()
  } catch (error) {
    throw error instanceof ApiError ? invalid(path, error.message) : error
  }
}

const invalid = (path: string, message: string): ApiError =>
  new ApiError('invalid_work_order', `${path}: ${message}`, { details: { errors: [{ path, message }] } })
