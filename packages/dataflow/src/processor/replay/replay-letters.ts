// The letter of a replay that failed again: the same letter by its id, with one attempt more; where the failure moved to another stage,
// a letter of its own that still tells when and where it all began.
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { LetterError } from '@brokkr/contract/dataflow/envelope.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/json.ts'
import type { LetterMaker } from '../dead-letter.ts'
import { newMessage } from '../message.ts'
import type { LetterBook } from './letter-book.ts'

export function replayLetters(maker: LetterMaker, book: LetterBook): LetterMaker {
  return {
    make(payload, failure, place, nowMs) {
      const made = maker.make(payload, failure, place, nowMs)
      const before = book.of(payload)?.error
      if (before === undefined) return made
      const { error, original_message } = made.json as unknown as { error: LetterError; original_message: JsonObject }
      const next = again(error, before, place.recordIndex)
      return newMessage({
        json: { error: next as unknown as JsonObject, original_message },
        key: Buffer.from(next.id),
        metadata: made.metadata,
        position: made.position,
        partition: made.partition,
        bytes: made.bytes,
      })
    },
  }
}

function again(made: LetterError, before: LetterError, recordIndex: number): LetterError {
  const { flow, position, first_failed_at, attempts } = before
  // A record that a sink refused does not run through the chain: what else fails it is a matter of its sink still.
  const isSink = before.stage === 'sink'
  const error = isSink ? { ...made, stage: before.stage, route: before.route, original_sink: before.original_sink } : made
  const id = error.stage === before.stage ? before.id : movedId(before.id, recordIndex, error.stage)
  return { ...error, id, flow, position, first_failed_at, attempts: attempts + 1 }
}

const movedId = (...from: [id: string, recordIndex: number, stage: string]): string =>
  createHash('sha256').update(JSON.stringify(from)).digest('hex').slice(0, 40)
