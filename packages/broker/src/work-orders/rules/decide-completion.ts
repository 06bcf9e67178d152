// Decides what a reported result, or the end of a claim, does to a work order. Pure; the only retry rule.
import type { ErrorCode } from '@brokkr/contract/errors.ts'
import { nextWorkOrderState, toRetryDelaySeconds, type WorkOrderInput, type WorkOrderState } from './work-order-states.ts'

export interface ClaimState {
  readonly status: WorkOrderState
  readonly claimed_by: string | null
  readonly attempt: number
  readonly retry_count: number
  readonly max_retries: number
  readonly backoff_seconds: number
}
export interface WorkOrderResult {
  readonly success: boolean
  readonly message: string | null
  readonly retryable: boolean
  /** null: the caller does not know its attempt, as agents of the first version. */
  readonly attempt: number | null
}
export type Completion =
  | { readonly do: 'refuse'; readonly code: ErrorCode }
  | { readonly do: 'log'; readonly success: boolean; readonly message: string | null }
  | { readonly do: 'retry'; readonly retryCount: number; readonly delaySeconds: number; readonly message: string }

/** `agentId` is the reporting agent; null for an admin, who may report for any holder. */
export function decideCompletion(order: ClaimState, result: WorkOrderResult, agentId: string | null): Completion {
  const refusal = refuseReport(order, { agentId, attempt: result.attempt })
  if (refusal !== null) return { do: 'refuse', code: refusal }
  const message = result.message === null ? null : cutMessage(result.message)
  const input = toInput(order, result)
  if (nextWorkOrderState[order.status][input] === 'refuse') return { do: 'refuse', code: 'work_order_not_claimed_by_agent' }
  if (input === 'succeed') return { do: 'log', success: true, message }
  const failure = message ?? 'Unknown error'
  if (input === 'giveUp') return { do: 'log', success: false, message: failure }
  const retryCount = order.retry_count + 1
  return { do: 'retry', retryCount, delaySeconds: toRetryDelaySeconds(order.backoff_seconds, retryCount), message: failure }
}

/** Fencing: only the holder of the current attempt reports about an order. */
export function refuseReport(
  order: Pick<ClaimState, 'status' | 'claimed_by' | 'attempt'>,
  { agentId, attempt }: { agentId: string | null; attempt: number | null },
): ErrorCode | null {
  if (order.status !== 'CLAIMED' || (agentId !== null && order.claimed_by !== agentId)) return 'work_order_not_claimed_by_agent'
  return attempt !== null && attempt !== order.attempt ? 'work_order_attempt_stale' : null
}

const toInput = ({ retry_count, max_retries }: ClaimState, { success, retryable }: WorkOrderResult): WorkOrderInput =>
  success ? 'succeed' : retryable && retry_count < max_retries ? 'fail' : 'giveUp'

/** A claim that timed out counts as a failed attempt, without a delay before the next one. */
export const decideExpiry = ({ retry_count, max_retries }: Pick<ClaimState, 'retry_count' | 'max_retries'>): 'expire' | 'expireLast' =>
  retry_count < max_retries ? 'expire' : 'expireLast'

const messageBytesMax = 4096
const cutMark = '…[cut]'

export function cutMessage(text: string): string {
  if (Buffer.byteLength(text) <= messageBytesMax) return text
  const bytes = Buffer.from(text).subarray(0, messageBytesMax - Buffer.byteLength(cutMark))
  // Decoding replaces a character that was cut in the middle.
  return `${bytes.toString('utf8').replace(/\uFFFD+$/u, '')}${cutMark}`
}
