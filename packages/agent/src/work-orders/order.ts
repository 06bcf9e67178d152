// A work order as the agent carries it out, and what becomes of it.
import type { WorkOrder } from '@brokkr/contract/work-order.ts'
import type { Kube } from '@brokkr/kube/kube.ts'
import type { Clock } from '@brokkr/runtime/clock.ts'
import type { Log } from '@brokkr/runtime/log.ts'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import type { OutputPiece } from './output.ts'

export type Order = Pick<WorkOrder, 'id' | 'work_type' | 'yaml_content' | 'claim_timeout_seconds'> & {
  /** From 1; tells the runs of one order apart. */
  readonly attempt: number
  /** By our own clock; the claim is counted from here. */
  readonly claimedAtMs: number
}
export type OrderResult =
  | { readonly success: true; readonly message: string }
  | { readonly success: false; readonly message: string; readonly retryable: boolean }

export interface OrderDeps {
  /** Whose writes are judged by the permit. */
  readonly kube: Kube
  readonly clock: Clock
  readonly log: Log
  readonly agentId: string
  readonly settings: ReconcileDeps['settings']
  readonly sendOutput: (orderId: string, piece: OutputPiece, signal: AbortSignal) => Promise<void>
  /** Between two looks at what runs. */
  readonly checkMs: number
  readonly buildMs: number
}

export const OPERATIONS_MANAGER = 'brokkr-operations'
export const ORDER_LABEL = 'brokkr.io/work-order-id'
export const ATTEMPT_LABEL = 'brokkr.io/work-order-attempt'

export const failed = (message: string, retryable: boolean): OrderResult => ({
  success: false,
  message: message.slice(0, messageCharsMax),
  retryable,
})
export const succeeded = (message: string): OrderResult => ({ success: true, message: message.slice(0, messageCharsMax) })
const messageCharsMax = 4_096

/** What is left of the claim for the work itself; the rest is for telling how it ended. */
export function budgetMs({ claim_timeout_seconds: seconds }: Pick<Order, 'claim_timeout_seconds'>): number {
  const left = seconds - Math.max(60, seconds / 10)
  return Math.max(left, seconds / 2) * 1000
}
