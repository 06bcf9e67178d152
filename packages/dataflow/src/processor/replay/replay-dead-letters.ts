// Dead letter of a replay that failed again: same id, one attempt more. If another stage failed, it gets its own id but keeps the time and
// position of the first failure.
import { Buffer } from 'node:buffer'
import { createHash } from 'node:crypto'
import type { LetterError } from '@brokkr/contract/dataflow/dead-letter.ts'
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import { newMessage } from '../../message/message.ts'
import type { DeadLetterBuilder } from '../dead-letter/dead-letter.ts'
import type { InFlightDeadLetters } from './in-flight-dead-letters.ts'

export function createReplayBuilder(maker: DeadLetterBuilder, deadLetters: InFlightDeadLetters): DeadLetterBuilder {
  return {
    build(payload, failure, place, nowMs) {
      const deadLetter = maker.build(payload, failure, place, nowMs)
      const before = deadLetters.find(payload)?.error
      if (before === undefined) return deadLetter
      const { error, original_message } = deadLetter.json as unknown as { error: LetterError; original_message: JsonObject }
      const next = toRepeatedError(error, before, place.recordIndex)
      return newMessage({
        json: { error: next as unknown as JsonObject, original_message },
        key: Buffer.from(next.id),
        metadata: deadLetter.metadata,
        position: deadLetter.position,
        partition: deadLetter.partition,
        bytes: deadLetter.bytes,
      })
    },
  }
}

function toRepeatedError(made: LetterError, before: LetterError, recordIndex: number): LetterError {
  const { flow, position, first_failed_at, attempts } = before
  // A record that a sink rejected bypasses the chain, so any failure belongs to its sink.
  const isSink = before.stage === 'sink'
  const error = isSink ? { ...made, stage: before.stage, route: before.route, original_sink: before.original_sink } : made
  const id = error.stage === before.stage ? before.id : toMovedId(before.id, recordIndex, error.stage)
  return { ...error, id, flow, position, first_failed_at, attempts: attempts + 1 }
}

const toMovedId = (...from: [id: string, recordIndex: number, stage: string]): string =>
  createHash('sha256').update(JSON.stringify(from)).digest('hex').slice(0, 40)
