// State machine of work orders as one total table: state × input → next state. `LOGGED` moves the order to the log, `DELETED` removes it,
// `refuse` changes nothing. Pure; stores build the conditions of their statements from it.
export type WorkOrderState = 'PENDING' | 'CLAIMED' | 'RETRY_PENDING'
export type WorkOrderInput =
  | 'claim'
  /** The holder reports success. */
  | 'succeed'
  /** The holder reports a failure that may be retried, or one that may not. */
  | 'fail'
  | 'giveUp'
  /** The claim timed out with retries left, or without. */
  | 'expire'
  | 'expireLast'
  | 'retryDue'
  /** The holder was deleted. */
  | 'release'
  | 'cancel'
export type NextWorkOrderState = WorkOrderState | 'LOGGED' | 'DELETED' | 'refuse'

export const nextWorkOrderState = {
  PENDING: {
    claim: 'CLAIMED',
    succeed: 'refuse',
    fail: 'refuse',
    giveUp: 'refuse',
    expire: 'refuse',
    expireLast: 'refuse',
    retryDue: 'refuse',
    release: 'refuse',
    cancel: 'DELETED',
  },
  CLAIMED: {
    claim: 'refuse',
    succeed: 'LOGGED',
    fail: 'RETRY_PENDING',
    giveUp: 'LOGGED',
    expire: 'PENDING',
    expireLast: 'LOGGED',
    retryDue: 'refuse',
    release: 'PENDING',
    cancel: 'DELETED',
  },
  RETRY_PENDING: {
    claim: 'refuse',
    succeed: 'refuse',
    fail: 'refuse',
    giveUp: 'refuse',
    expire: 'refuse',
    expireLast: 'refuse',
    retryDue: 'PENDING',
    release: 'refuse',
    cancel: 'DELETED',
  },
} as const satisfies Record<WorkOrderState, Record<WorkOrderInput, NextWorkOrderState>>

export const workOrderStates = Object.keys(nextWorkOrderState) as WorkOrderState[]
export const workOrderInputs = Object.keys(nextWorkOrderState.PENDING) as WorkOrderInput[]

/** States in which an input is accepted. */
const listAcceptingStates = (input: WorkOrderInput): WorkOrderState[] =>
  workOrderStates.filter((state) => nextWorkOrderState[state][input] !== 'refuse')

/** SQL list of the states in which an input is accepted. */
export const acceptingStates = (input: WorkOrderInput): string =>
  listAcceptingStates(input)
    .map((state) => `'${state}'`)
    .join(', ')

const retryDelaySecondsMax = 86_400

/** Delay before retry `retryCount`, which counts from 1. */
export const toRetryDelaySeconds = (backoffSeconds: number, retryCount: number): number =>
  Math.min(backoffSeconds * 2 ** retryCount, retryDelaySecondsMax)
