// Holds: a hold pins a stack to one of its deployment objects. Submitting goes on; later objects wait until the hold is released.
import { z } from 'zod'
import { endpoint } from '../endpoint.ts'
import { byId, StackId, Timestamp, Uuid } from '../wire.ts'

/** Maximum number of waiting sequence numbers in one answer. */
export const waitingMax = 100

export const Hold = z.object({
  stack_id: StackId,
  sequence_id: z.int(),
  reason: z.string(),
  by: z.object({ kind: z.string(), id: Uuid.nullable(), name: z.string().nullable() }),
  created_at: Timestamp,
  /** Sequence numbers of the deployment objects behind the hold, newest first. */
  waiting: z.array(z.int()),
})
export type Hold = z.output<typeof Hold>

const path = '/api/v1/stacks/{id}/hold'
const params = byId(StackId)
const reason = z.string().min(1).max(1000)

export const holdStack = endpoint({
  method: 'PUT',
  path,
  summary:
    'Hold a stack: agents keep the deployment object with sequence_id, later ones wait. Without sequence_id the held or the wanted one is taken',
  params,
  body: z.object({ sequence_id: z.int().min(1).nullable().optional(), reason }),
  success: 200,
  response: Hold,
  errors: ['stack_not_found', 'stack_not_owned', 'hold_sequence_invalid', 'hold_not_owned'],
})

export const getHold = endpoint({
  method: 'GET',
  path,
  summary: 'Read the hold of a stack with the sequence numbers that wait behind it',
  params,
  success: 200,
  response: Hold,
  errors: ['stack_not_found', 'stack_not_owned', 'hold_not_found'],
})

export const releaseStack = endpoint({
  method: 'DELETE',
  path,
  summary: 'Release the hold of a stack; agents get the newest deployment object',
  params,
  query: z.object({ reason: reason.optional() }),
  success: 204,
  errors: ['stack_not_found', 'stack_not_owned', 'hold_not_found', 'hold_not_owned'],
})
