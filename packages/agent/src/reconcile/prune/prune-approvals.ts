// Deployment objects whose prune guard an admin lifted. The broker's list replaces the known approvals.
import { z } from 'zod'

const Row = z.object({ stack_id: z.string(), sequence_id: z.int() })
/** The response also contains approvals of removals, which have another form. */
const Rows = z.array(z.unknown())

export class PruneApprovals {
  #approved: ReadonlySet<string> = new Set()

  isApproved(stackId: string, sequenceId: number): boolean {
    return this.#approved.has(toKey(stackId, sequenceId))
  }

  /** Replaces the open approvals and returns the stacks with new ones. */
  take(answer: unknown): string[] {
    const rows = Rows.parse(answer).flatMap((row) => Row.safeParse(row).data ?? [])
    const before = this.#approved
    this.#approved = new Set(rows.map(({ stack_id, sequence_id }) => toKey(stack_id, sequence_id)))
    return rows.filter(({ stack_id, sequence_id }) => !before.has(toKey(stack_id, sequence_id))).map(({ stack_id }) => stack_id)
  }
}

const toKey = (stackId: string, sequenceId: number): string => `${stackId} ${sequenceId}`
