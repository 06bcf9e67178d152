// Measures the lag of a slot and reports when the slot retains too much WAL.
import type { PostgresqlCdcSource } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type { Lag, SourceContext } from '../connector.ts'
import { connectPostgres } from '../postgresql/client.ts'

export class SlotLag {
  readonly #config: PostgresqlCdcSource
  readonly #context: SourceContext
  #isLagging = false

  constructor(config: PostgresqlCdcSource, context: SourceContext) {
    this.#config = config
    this.#context = context
  }

  /** Own connection: the source's may be running a COPY. */
  async read(): Promise<Lag> {
    const own = await connectPostgres(this.#config, this.#context)
    try {
      const result = await own.query<{ retained: string | null; behind: string | null }>({
        text: `select pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn)::text as retained, pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::text as behind
          from pg_replication_slots where slot_name = $1`,
        values: [this.#config.slotName ?? ''],
      })
      const row = result.rows[0]
      if (row === undefined) return {}
      const retainedBytes = Number(row.retained ?? 0)
      this.#warn(retainedBytes)
      return { bytes: Number(row.behind ?? 0), retainedBytes }
    } finally {
      await own.end()
    }
  }

  /** Reports once per occurrence. */
  #warn(retained: number): void {
    const isLagging = retained > this.#config.slotLagWarningBytes
    if (isLagging && !this.#isLagging)
      this.#context.notice('SlotLag', `slot ${this.#config.slotName ?? ''} keeps ${retained} bytes of WAL on the server`)
    this.#isLagging = isLagging
  }
}
