// Count and digest of a desired state, which an agent compares with its own.
import { createHash } from 'node:crypto'
import { digestText } from '@brokkr/contract/feed/digest.ts'

export function digestDesiredState(
  rows: readonly { stack_id: string | null; rev: number | null; object_id: string | null; yaml_checksum: string | null }[],
) {
  const lines = rows.map((row) => ({
    stackId: row.stack_id!,
    rev: row.rev!,
    object: row.object_id === null ? null : { id: row.object_id, checksum: row.yaml_checksum! },
  }))
  return { count: lines.length, digest: createHash('sha256').update(digestText(lines)).digest('hex') }
}
