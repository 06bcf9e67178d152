// Count and digest of a listing: what a follower compares with what it holds itself.
import { createHash } from 'node:crypto'
import { digestText } from '@brokkr/contract/digest.ts'

export function digestOf(
  listed: readonly { stack_id: string | null; rev: number | null; object_id: string | null; yaml_checksum: string | null }[],
) {
  const lines = listed.map((row) => ({
    stackId: row.stack_id!,
    rev: row.rev!,
    object: row.object_id === null ? null : { id: row.object_id, checksum: row.yaml_checksum! },
  }))
  return { count: lines.length, digest: createHash('sha256').update(digestText(lines)).digest('hex') }
}
