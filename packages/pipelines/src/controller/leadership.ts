// Who may write: the holder of the Lease, under the epoch of its term.
import type { PromotionStatus } from '@brokkr/contract/pipelines/promotion.ts'
import type { Election } from '@brokkr/kube'

export interface Leadership {
  readonly holder: string
  readonly isLeader: boolean
  /** Transitions of the Lease when this term began. */
  readonly epoch: number
  /** Of the Lease that counts the epochs; null: there is no Lease. */
  readonly leaseUid: string | null
  /** Throws when this process does not lead: the guard of every write. */
  assertLeader(): void
}

/** Whether a newer leader wrote the record. Records of releases that stored no Lease UID count as written under the same Lease. */
export const isOutranked = ({ epoch, leaseUid }: Pick<Leadership, 'epoch' | 'leaseUid'>, last: PromotionStatus['lease']): boolean =>
  last !== undefined && (last.uid ?? leaseUid) === leaseUid && last.epoch > epoch

export const electedLeadership = (election: Election): Leadership => ({
  holder: election.identity,
  get isLeader() {
    return election.held()
  },
  get epoch() {
    return election.term?.epoch ?? 0
  },
  get leaseUid() {
    return election.term?.leaseUid ?? null
  },
  assertLeader: () => election.assertHeld(),
})

/** Without leader election (`--leader-elect=false`) every process acts. */
export const soleLeadership = (holder: string): Leadership => ({
  holder,
  isLeader: true,
  epoch: 0,
  leaseUid: null,
  assertLeader: () => undefined,
})
