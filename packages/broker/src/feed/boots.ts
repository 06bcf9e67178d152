// Boots of the database server, as a history remembers them. A backup put back in place looks like the history that was lost, and
// counts its transactions anew; but to get there the server had to start, and the boot that the lost cursors name is unknown to it, or
// ended before what they saw. Pure.
import type { Cursor } from './cursor.ts'

export interface Boots {
  /** The one that runs. */
  readonly boot: string
  /** Those before it, each with the first transaction that came after it. */
  readonly ended: ReadonlyMap<string, bigint>
}

/** Whether this history can have issued it, as far as boots tell. */
export function isOfHistory({ boot, ended }: Boots, cursor: Pick<Cursor, 'boot' | 'snapshot'>): boolean {
  if (cursor.boot === boot) return true
  const endedXid = ended.get(cursor.boot)
  return endedXid !== undefined && cursor.snapshot.xmax <= endedXid
}
