// Starts ("boots") of the database server, as recorded in the database. After a backup is restored, the database reports the same epoch
// and reuses transaction ids. But the server had to start for that, so the boot named by a cursor of the lost history is unknown, or
// ended before the cursor's database snapshot. Pure.
import type { Cursor } from './cursor.ts'

export interface ServerBoots {
  /** The current boot. */
  readonly boot: string
  /** Previous boots, each with the first transaction id after its end. */
  readonly ended: ReadonlyMap<string, bigint>
}

/** Whether the current epoch can have issued the cursor, judged by boots alone. */
export function isCursorOfEpoch({ boot, ended }: ServerBoots, cursor: Pick<Cursor, 'boot' | 'snapshot'>): boolean {
  if (cursor.boot === boot) return true
  const endedXid = ended.get(cursor.boot)
  return endedXid !== undefined && cursor.snapshot.xmax <= endedXid
}
