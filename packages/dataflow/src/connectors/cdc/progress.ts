// Computes the position that the slot may confirm: the end of a transaction once all its messages and all earlier ones have outcomes; the
// end of the WAL only while no message is in flight. Pure.
import type { Lsn } from './pgoutput.ts'

interface OpenTransaction {
  readonly commitLsn: Lsn
  /** Messages emitted. */
  count: number
  /** Set when the commit arrived. */
  endLsn: Lsn | undefined
  /** Messages with an outcome, in order. */
  ended: number
}

export class CdcProgress {
  #confirmed: Lsn
  readonly #open: OpenTransaction[] = []
  /** Last message with an outcome. A repeated transaction gets no second outcome for its messages, so it starts with this count. */
  #lastEnded: { readonly commitLsn: Lsn; readonly number: number } | undefined

  constructor(confirmed: Lsn) {
    this.#confirmed = confirmed
  }

  get confirmed(): Lsn {
    return this.#confirmed
  }

  /** True while a transaction is incomplete. */
  get #isInside(): boolean {
    return this.#open.at(-1)?.endLsn === undefined && this.#open.length > 0
  }

  /** A new connection: the server repeats transactions that are not confirmed. One that was cut off is dropped, because it may be confirmed
   *  already and then never comes again. */
  reconnect(): void {
    if (this.#isInside) this.#open.pop()
  }

  /** A repeated transaction that is still open is kept. */
  begin(commitLsn: Lsn): void {
    if (this.#open.some((each) => each.commitLsn === commitLsn)) return
    this.#open.push({ commitLsn, count: 0, endLsn: undefined, ended: this.#countEnded(commitLsn) })
  }

  /** A message of the transaction, numbered from 0. */
  handedOut(commitLsn: Lsn, number: number): void {
    const transaction = this.#find(commitLsn)
    if (transaction !== undefined) transaction.count = Math.max(transaction.count, number + 1)
  }

  commit(commitLsn: Lsn, endLsn: Lsn): void {
    const transaction = this.#find(commitLsn)
    if (transaction !== undefined) transaction.endLsn = endLsn
    this.#settle()
  }

  /** All messages up to this one have an outcome. */
  ended(commitLsn: Lsn, number: number): void {
    this.#lastEnded = { commitLsn, number }
    for (const transaction of this.#open) {
      if (transaction.commitLsn < commitLsn) transaction.ended = transaction.count
      else if (transaction.commitLsn === commitLsn) transaction.ended = Math.max(transaction.ended, number + 1)
    }
    this.#settle()
  }

  /** End of the server's WAL; other tables may have written all of it. */
  keepalive(walEnd: Lsn): void {
    if (this.#open.length === 0 && walEnd > this.#confirmed) this.#confirmed = walEnd
  }

  #countEnded(commitLsn: Lsn): number {
    const last = this.#lastEnded
    if (last === undefined || commitLsn > last.commitLsn) return 0
    return commitLsn === last.commitLsn ? last.number + 1 : Number.POSITIVE_INFINITY
  }

  #find(commitLsn: Lsn): OpenTransaction | undefined {
    return this.#open.findLast((each) => each.commitLsn === commitLsn)
  }

  #settle(): void {
    for (let first = this.#open[0]; first?.endLsn !== undefined && first.ended >= first.count; first = this.#open[0]) {
      if (first.endLsn > this.#confirmed) this.#confirmed = first.endLsn
      this.#open.shift()
    }
  }
}
