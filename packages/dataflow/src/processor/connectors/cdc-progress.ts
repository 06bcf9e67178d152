// What a slot may be told: the end of a transaction once all its messages have ended and everything before it is confirmed; the end of
// the log only while nothing is open. Pure bookkeeping, no connection.
import type { Lsn } from './pgoutput.ts'

interface Open {
  readonly commitLsn: Lsn
  /** Messages handed out. */
  count: number
  /** Known once the commit came. */
  endLsn: Lsn | undefined
  /** Messages ended: they end in order. */
  ended: number
}

export class CdcProgress {
  #confirmed: Lsn
  readonly #open: Open[] = []

  constructor(confirmed: Lsn) {
    this.#confirmed = confirmed
  }

  get confirmed(): Lsn {
    return this.#confirmed
  }

  /** True while a transaction came in part. */
  get isInside(): boolean {
    return this.#open.at(-1)?.endLsn === undefined && this.#open.length > 0
  }

  /** After a reconnect the server sends again what it has no word of; what is known stays known. */
  begin(commitLsn: Lsn): void {
    const last = this.#open.at(-1)
    if (last !== undefined && last.endLsn === undefined && last.commitLsn !== commitLsn) this.#open.pop()
    if (!this.#open.some((each) => each.commitLsn === commitLsn)) this.#open.push({ commitLsn, count: 0, endLsn: undefined, ended: 0 })
  }

  /** A message of the transaction, by its number from 0. */
  handedOut(commitLsn: Lsn, number: number): void {
    const open = this.#find(commitLsn)
    if (open !== undefined) open.count = Math.max(open.count, number + 1)
  }

  commit(commitLsn: Lsn, endLsn: Lsn): void {
    const open = this.#find(commitLsn)
    if (open !== undefined) open.endLsn = endLsn
    this.#settle()
  }

  /** Everything up to this message has ended. */
  ended(commitLsn: Lsn, number: number): void {
    for (const open of this.#open) {
      if (open.commitLsn < commitLsn) open.ended = open.count
      else if (open.commitLsn === commitLsn) open.ended = Math.max(open.ended, number + 1)
    }
    this.#settle()
  }

  /** The server's log ends here; other tables may have written all of it. */
  keepalive(walEnd: Lsn): void {
    if (this.#open.length === 0 && walEnd > this.#confirmed) this.#confirmed = walEnd
  }

  #find(commitLsn: Lsn): Open | undefined {
    return this.#open.findLast((each) => each.commitLsn === commitLsn)
  }

  #settle(): void {
    for (let first = this.#open[0]; first?.endLsn !== undefined && first.ended >= first.count; first = this.#open[0]) {
      if (first.endLsn > this.#confirmed) this.#confirmed = first.endLsn
      this.#open.shift()
    }
  }
}
