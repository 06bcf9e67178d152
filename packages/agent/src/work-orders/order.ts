// A claimed work order and its result.
import type { WorkOrder } from '@brokkr/contract/work-orders/work-order.ts'
import type { Kube } from '@brokkr/kube'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/logging/log.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import type { ClaimStore } from './claim-store.ts'
import type { OutputPiece } from './output.ts'

export type Order = Pick<WorkOrder, 'id' | 'work_type' | 'yaml_content' | 'claim_timeout_seconds'> & {
  /** From 1; distinguishes the attempts of one order. */
  readonly attempt: number
  /** By the agent's clock; the claim timeout counts from here. */
  readonly claimedAtMs: number
}
export type OrderResult =
  | { readonly success: true; readonly message: string }
  | { readonly success: false; readonly message: string; readonly retryable: boolean }

export interface OrderDeps {
  /** Client whose writes need the permit. */
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly agentId: string
  readonly settings: ReconcileDeps['settings']
  /** Records the objects that an order created, by UID. */
  readonly claimed: Pick<ClaimStore, 'created' | 'addCreated'>
  readonly sendOutput: (orderId: string, piece: OutputPiece, signal: AbortSignal) => Promise<void>
  /** Interval between two reads of running objects. */
  readonly checkMs: number
  readonly buildMs: number
}

export const OPERATIONS_MANAGER = 'brokkr-operations'
export const ORDER_LABEL = 'brokkr.io/work-order-id'
export const ATTEMPT_LABEL = 'brokkr.io/work-order-attempt'

export const toFailure = (message: string, retryable: boolean): OrderResult => ({
  success: false,
  message: message.slice(0, messageCharsMax),
  retryable,
})
export const toSuccess = (message: string): OrderResult => ({ success: true, message: message.slice(0, messageCharsMax) })
const messageCharsMax = 4_096

/** Time for the work itself; the rest of the claim is for reporting the result. */
export function toBudgetMs({ claim_timeout_seconds: seconds }: Pick<Order, 'claim_timeout_seconds'>): number {
  const remainingMs = seconds - Math.max(60, seconds / 10)
  return Math.max(remainingMs, seconds / 2) * 1000
}
