// Appends a piece of output of a claimed work order. The last 256 KiB of the current attempt are stored sealed and stay with the log entry.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { Sql } from '@brokkr/postgres'
import type { Seal } from '../../seal.ts'
import { openOutput, toOutputContext } from '../open-contents.ts'
import { appendOutput, type OutputPiece } from '../rules/append-output.ts'
import { refuseReport } from '../rules/decide-completion.ts'
import * as workOrderClaims from '../store/work-order-claims.ts'
import * as workOrderContents from '../store/work-order-contents.ts'
import { toRefusalText } from './complete-work-order.ts'

const pieceBytesMax = 64 * 1024

export async function appendWorkOrderOutput(
  deps: { sql: Sql; seal: Seal },
  { id, agentId, piece }: { id: string; agentId: string; piece: OutputPiece },
): Promise<void> {
  if (Buffer.byteLength(piece.text) > pieceBytesMax) {
    const message = `must have at most ${pieceBytesMax} bytes; send the output in several pieces`
    throw new ApiError('validation_failed', `text ${message}`, { details: { errors: [{ path: 'text', message }] } })
  }
  await deps.sql.begin(async (sql) => {
    const claim = await workOrderClaims.lock(sql, { id })
    const row = claim === null ? null : await workOrderContents.lockOutput(sql, { id })
    if (claim === null || row === null) throw new ApiError('work_order_not_found', 'no open work order has this id')
    const refusal = refuseReport(claim, { agentId, attempt: piece.attempt })
    if (refusal !== null) throw new ApiError(refusal, toRefusalText(refusal))
    const output = appendOutput(openOutput(deps.seal, id, row), piece)
    if (output === null) return
    const { attempt, start, end, text } = output
    await workOrderContents.putOutput(sql, { id, sealed: deps.seal.seal(toOutputContext(id), text), attempt, start, end })
  })
}
