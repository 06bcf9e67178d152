// What an attempt on a stack is asked to bring about, and how that compares with what is in force. Pure.
import type { StackState } from './stack-parents.ts'

export interface ApplyTask {
  readonly stackId: string
  readonly rev: number
  readonly drift: string
  readonly object: { readonly id: string; readonly sequenceId: number; readonly checksum: string; readonly content: Buffer }
  readonly text: string
  /** Members that another hand may have changed. */
  readonly suspects: ReadonlySet<string>
  /** Members over which we fight with somebody: left alone until their pause is over. */
  readonly resting: ReadonlySet<string>
  /** Stacks of ours that are on their way out. */
  readonly isLeaving?: (stackId: string) => boolean
}

export const isInForce = (state: StackState, { rev, drift, object }: ApplyTask): boolean =>
  state.deployment_object_id === object.id && state.rev === rev && state.drift === drift

/** The revision as its parent keeps it once it is in force. */
export const stateOf = (
  agentId: string,
  { stackId, rev, drift, object }: ApplyTask,
  event: StackState['event'],
): Omit<StackState, 'version'> => ({
  agent_id: agentId,
  stack_id: stackId,
  deployment_object_id: object.id,
  sequence_id: object.sequenceId,
  rev,
  checksum: object.checksum,
  drift,
  event,
})
