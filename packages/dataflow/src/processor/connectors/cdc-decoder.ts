// From the frames of a slot to messages: keeps the tables that the stream described, the transaction it is in, and what was handed out
// already, and tells the bookkeeping what came.

import { newMessage } from '../message.ts'
import { type Change, type ChangeSettings, changesOf } from './cdc-changes.ts'
import type { CdcProgress } from './cdc-progress.ts'
import { type CdcPosition, compareCdc } from './cdc-state.ts'
import type { Message } from './connector.ts'
import { commitTime, halvesText, type Lsn, lsnText, type PgMessage, type Relation } from './pgoutput.ts'
import type { Frame } from './replication-stream.ts'

type DataFrame = Extract<Frame, { kind: 'data' }>

/** All changes are of one sequence. */
export const cdcPartition = 'slot'

export interface DecoderDeps {
  readonly settings: ChangeSettings
  readonly database: string
  /** Full names: a publication may hold more than the flow asked for. */
  readonly tables: readonly string[]
  readonly era: number
  readonly progress: CdcProgress
  dropped(reason: string, count: number): void
}

type Transaction = { readonly commitLsn: Lsn; readonly lsn: string; readonly xid: number; readonly time: string; number: number }

export class CdcDecoder {
  readonly #deps: DecoderDeps
  readonly #relations = new Map<number, { readonly relation: Relation; readonly isWanted: boolean }>()
  #transaction: Transaction | undefined
  #handedOut: CdcPosition | undefined

  /** `handedOut`: after a reconnect the server begins at the last confirmed transaction; what is in the pipeline already is left out. */
  constructor(deps: DecoderDeps, handedOut: CdcPosition | undefined) {
    this.#deps = deps
    this.#handedOut = handedOut
  }

  get handedOut(): CdcPosition | undefined {
    return this.#handedOut
  }

  /** Whether a transaction came in part. */
  get isInside(): boolean {
    return this.#transaction !== undefined
  }

  /** Adds the messages of a frame, none for most kinds. */
  take(frame: Frame, messages: Message[]): void {
    if (frame.kind === 'data') this.#apply(frame.message, frame.at, messages)
    else if (this.#transaction === undefined) this.#deps.progress.keepalive(frame.walEnd)
  }

  #apply(message: PgMessage, at: DataFrame['at'], messages: Message[]): void {
    switch (message.kind) {
      case 'begin':
        return this.#begin(message)
      case 'commit':
        this.#transaction = undefined
        return this.#deps.progress.commit(message.commitLsn, message.endLsn)
      case 'relation':
        this.#relations.set(message.relation.id, { relation: message.relation, isWanted: this.#isWanted(message.relation) })
        return
      case 'truncate':
        return this.#deps.dropped('truncate', message.relations.length)
      case 'other':
        return
      case 'insert':
      case 'update':
      case 'delete':
      default:
        return this.#rows(message, at, messages)
    }
  }

  #begin({ commitLsn, xid, timeMicros }: Extract<PgMessage, { kind: 'begin' }>): void {
    this.#transaction = { commitLsn, lsn: lsnText(commitLsn), xid, time: commitTime(timeMicros), number: 0 }
    this.#deps.progress.begin(commitLsn)
  }

  #isWanted({ schema, table }: Relation): boolean {
    return this.#deps.tables.includes(`${schema}.${table}`)
  }

  #rows(message: Extract<PgMessage, { kind: 'insert' | 'update' | 'delete' }>, at: DataFrame['at'], messages: Message[]): void {
    const { settings, database } = this.#deps
    const transaction = this.#transaction
    const known = this.#relations.get(message.relation)
    if (transaction === undefined || known === undefined)
      throw new Error('pgoutput: a row outside of a transaction, or of an unknown table')
    if (!known.isWanted) return
    const place = { lsn: halvesText(...at), xid: transaction.xid, commitTime: transaction.time, isSnapshot: false, database }
    for (const change of changesOf(message, known.relation, settings, place)) this.#handOut(change, transaction, messages)
  }

  #handOut(change: Change, transaction: Transaction, messages: Message[]): void {
    const at = { e: this.#deps.era, l: transaction.lsn, n: transaction.number }
    transaction.number += 1
    this.#deps.progress.handedOut(transaction.commitLsn, at.n)
    if (this.#handedOut !== undefined && compareCdc(at, this.#handedOut) <= 0) return
    this.#handedOut = at
    messages.push(cdcMessage(change, at))
  }
}

export function cdcMessage({ text, key, metadata }: Change, position: CdcPosition): Message {
  return newMessage({
    raw: Buffer.from(text),
    key: key === undefined ? undefined : Buffer.from(key),
    metadata,
    position,
    partition: cdcPartition,
  })
}
