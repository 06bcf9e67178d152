// Opens the sealed parts of work orders and log entries, and shows a finished order as a work order.
import type { WorkOrder, WorkOrderLog } from '@brokkr/contract/work-orders/work-order.ts'
import type { EncryptionContext, Seal } from '../seal.ts'
import type { StoredOutput } from './rules/append-output.ts'
import type { StoredOutputRow } from './store/work-order-contents.ts'
import type { SealedLogEntry } from './store/work-order-log.ts'
import type { SealedOrder } from './store/work-orders.ts'

export const toYamlContext = (id: string): EncryptionContext => ({ table: 'work_order_contents', column: 'yaml_sealed', id })
export const toOutputContext = (id: string): EncryptionContext => ({ table: 'work_order_contents', column: 'output_sealed', id })

export function openOrder(seal: Seal, { yaml_sealed, ...order }: SealedOrder): WorkOrder {
  return { ...order, yaml_content: seal.open(toYamlContext(order.id), yaml_sealed) }
}

export function openLogEntry(seal: Seal, { yaml_sealed, ...entry }: SealedLogEntry): WorkOrderLog {
  return { ...entry, yaml_content: seal.open(toYamlContext(entry.id), yaml_sealed) }
}

/** Limits are not stored with finished orders; clients of the first version expect 0. */
export function openFinishedOrder(seal: Seal, row: SealedLogEntry): WorkOrder {
  const { id, work_type, claimed_by, claimed_at, created_at, completed_at, success, result_message, yaml_content } = openLogEntry(seal, row)
  return {
    id,
    work_type,
    yaml_content,
    status: success ? 'COMPLETED' : 'FAILED',
    claimed_by,
    claimed_at,
    claim_timeout_seconds: 0,
    max_retries: 0,
    retry_count: row.retries_attempted,
    backoff_seconds: 0,
    next_retry_after: null,
    last_error: success ? null : result_message,
    last_error_at: success ? null : completed_at,
    created_at,
    updated_at: completed_at,
    attempt: row.attempt,
  }
}

export function openOutput(seal: Seal, id: string, row: StoredOutputRow): StoredOutput | null {
  const { output_sealed, output_attempt: attempt, output_start: start, output_end: end } = row
  if (output_sealed === null || attempt === null) return null
  return { attempt, start, end, text: seal.open(toOutputContext(id), output_sealed) }
}
