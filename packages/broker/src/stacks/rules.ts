// Rules of holds: which object a hold may pin a stack to, and who may change a hold.
import type { Actor } from '../audit/rules.ts'

export interface NumberedObject {
  readonly id: string
  readonly sequence_id: number
}

export type HoldDecision =
  | { readonly do: 'hold'; readonly object: NumberedObject; readonly takesNumber: boolean }
  | { readonly do: 'refuse'; readonly reason: string }

/** A bound never moves an agent to an older object; only a rollback does, by a new object. `asked`: null if no live object has that number. */
export function decideHold(wanted: NumberedObject | null, asked: NumberedObject | null): HoldDecision {
  if (wanted === null) return { do: 'refuse', reason: 'the stack has no deployment object yet: submit one before holding the stack' }
  if (asked === null)
    return { do: 'refuse', reason: 'the stack has no live deployment object with this sequence_id: list its deployment objects' }
  if (asked.sequence_id < wanted.sequence_id)
    return {
      do: 'refuse',
      reason: `agents already have sequence ${wanted.sequence_id}: to go back, roll back to sequence ${asked.sequence_id} with hold`,
    }
  return { do: 'hold', object: asked, takesNumber: asked.id !== wanted.id }
}

/** A hold that an admin set is changed or released by admins only. */
export const mayChangeHold = (hold: { readonly by_kind: string } | null, actor: Pick<Actor, 'kind'>): boolean =>
  hold === null || hold.by_kind !== 'admin' || actor.kind === 'admin'
