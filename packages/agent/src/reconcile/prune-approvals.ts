// Which revisions may delete more than the guard lets pass, because a person said so. The broker's list is the truth; what it no
// longer names is no longer approved.
import { z } from 'zod'

const Row = z.object({ stack_id: z.string(), sequence_id: z.int() })
/** Approvals of another form, as for the stacks of a list, stand in the same answer and are none of these. */
const Rows = z.array(z.unknown())

export class PruneApprovals {
  #approved: ReadonlySet<string> = new Set()

  isApproved(stackId: string, sequenceId: number): boolean {
    return this.#approved.has(keyOf(stackId, sequenceId))
  }

  /** The open ones as the broker lists them. Gives the stacks that may do more than before. */
  take(answer: unknown): string[] {
    const rows = Rows.parse(answer).flatMap((row) => Row.safeParse(row).data ?? [])
    const before = this.#approved
    this.#approved = new Set(rows.map(({ stack_id, sequence_id }) => keyOf(stack_id, sequence_id)))
    return rows.filter(({ stack_id, sequence_id }) => !before.has(keyOf(stack_id, sequence_id))).map(({ stack_id }) => stack_id)
  }
}

const keyOf = (stackId: string, sequenceId: number): string => `${stackId} ${sequenceId}`
