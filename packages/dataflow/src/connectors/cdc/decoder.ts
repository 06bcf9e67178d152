// Converts frames of a slot to messages: tracks relations, the current transaction and emitted positions, and reports transactions to the
// progress.

import { newMessage } from '../../message/message.ts'
import type { Message } from '../connector.ts'
import { splitTableName } from '../postgresql/sql.ts'
import { type Change, type ChangeSettings, toChanges } from './changes.ts'
import { commitTime, halvesText, type Lsn, lsnText, type PgMessage, type Relation } from './pgoutput.ts'
import type { CdcProgress } from './progress.ts'
import type { Frame } from './replication-stream.ts'
import { type CdcPosition, compareCdcPositions } from './state.ts'

type DataFrame = Extract<Frame, { kind: 'data' }>

/** A slot has one sequence of changes. */
export const cdcPartition = 'slot'

export interface DecoderDeps {
  readonly settings: ChangeSettings
  readonly database: string
  /** The listed table of a relation; undefined if the publication publishes it but the flow does not list it. */
  findTable(relation: Relation): string | undefined
  readonly era: number
  readonly progress: CdcProgress
  dropped(reason: string, count: number): void
  /** Called once per relation whose rows are dropped. */
  unlisted(table: string): void
}

type Transaction = { readonly commitLsn: Lsn; readonly lsn: string; readonly xid: number; readonly time: string; number: number }

export class CdcDecoder {
  readonly #deps: DecoderDeps
  readonly #relations = new Map<number, { readonly relation: Relation; readonly isListed: boolean }>()
  readonly #unlisted = new Set<number>()
  #transaction: Transaction | undefined
  #handedOut: CdcPosition | undefined

  /** `handedOut`: after a reconnect the server starts at the last confirmed transaction; messages that were emitted before are skipped. */
  constructor(deps: DecoderDeps, handedOut: CdcPosition | undefined) {
    this.#deps = deps
    this.#handedOut = handedOut
  }

  get handedOut(): CdcPosition | undefined {
    return this.#handedOut
  }

  /** True while a transaction is incomplete. */
  get isInside(): boolean {
    return this.#transaction !== undefined
  }

  /** Adds the messages of a frame; most kinds have none. */
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
        return this.#describe(message.relation)
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

  #describe(relation: Relation): void {
    const name = this.#deps.findTable(relation)
    if (name === undefined) {
      this.#relations.set(relation.id, { relation, isListed: false })
      return
    }
    const { schema = relation.schema, name: table } = splitTableName(name)
    this.#relations.set(relation.id, { relation: { ...relation, schema, table }, isListed: true })
  }

  /** The confirmed position passes these rows, so they are counted. */
  #dropUnlisted({ id, schema, table }: Relation): void {
    this.#deps.dropped('unlisted_table', 1)
    if (this.#unlisted.has(id)) return
    this.#unlisted.add(id)
    this.#deps.unlisted(`${schema}.${table}`)
  }

  #rows(message: Extract<PgMessage, { kind: 'insert' | 'update' | 'delete' }>, at: DataFrame['at'], messages: Message[]): void {
    const { settings, database } = this.#deps
    const transaction = this.#transaction
    const entry = this.#relations.get(message.relation)
    if (transaction === undefined || entry === undefined)
      throw new Error('pgoutput: a row outside of a transaction, or of an unknown table')
    if (!entry.isListed) return this.#dropUnlisted(entry.relation)
    const place = { lsn: halvesText(...at), xid: transaction.xid, commitTime: transaction.time, isSnapshot: false, database }
    for (const change of toChanges(message, entry.relation, settings, place)) this.#handOut(change, transaction, messages)
  }

  #handOut(change: Change, transaction: Transaction, messages: Message[]): void {
    const at = { e: this.#deps.era, l: transaction.lsn, n: transaction.number }
    transaction.number += 1
    this.#deps.progress.handedOut(transaction.commitLsn, at.n)
    if (this.#handedOut !== undefined && compareCdcPositions(at, this.#handedOut) <= 0) return
    this.#handedOut = at
    messages.push(toCdcMessage(change, at))
  }
}

export function toCdcMessage({ text, key, metadata }: Change, position: CdcPosition): Message {
  return newMessage({
    raw: Buffer.from(text),
    key: key === undefined ? undefined : Buffer.from(key),
    metadata,
    position,
    partition: cdcPartition,
  })
}
