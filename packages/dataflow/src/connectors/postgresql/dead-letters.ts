// Dead letters in a table of PostgreSQL.
import type { PostgresqlSink } from '@brokkr/contract/dataflow/connectors/postgresql.ts'
import type pg from 'pg'
import type { ConnectorContext } from '../connector.ts'
import type { DeadLetterRow, DeadLetterRows, KeptDeadLetter } from '../dead-letter-rows.ts'
import { connectPostgres } from './client.ts'
import { toPostgresError } from './errors.ts'
import { quoteTable } from './sql.ts'

export class PostgresDeadLetters implements DeadLetterRows {
  readonly #config: PostgresqlSink
  readonly #context: ConnectorContext
  readonly #table: string
  #client: pg.Client | undefined
  #until: string | undefined

  constructor(config: PostgresqlSink, context: ConnectorContext) {
    this.#config = config
    this.#context = context
    this.#table = quoteTable(config.table ?? '')
  }

  async connect(): Promise<void> {
    await this.close()
    this.#client = await connectPostgres(this.#config, this.#context)
  }

  async page(flow: string, after: Pick<DeadLetterRow, 'at' | 'id'> | undefined, limit: number): Promise<readonly DeadLetterRow[]> {
    this.#until ??= (await this.#query<{ now: string }>('select now()::text as now', [])).rows[0]!.now
    const { rows } = await this.#query<DeadLetterRow & pg.QueryResultRow>(
      `select id, created_at::text as at, json_build_object('error', error::jsonb, 'original_message', original_message::jsonb)::text as letter
       from ${this.#table}
       where replayed_at is null and error::jsonb->>'flow' = $1 and (created_at, id) > ($2::timestamptz, $3) and created_at <= $5::timestamptz
       order by created_at, id limit $4`,
      [flow, after?.at ?? '-infinity', after?.id ?? '', limit, this.#until],
    )
    return rows
  }

  async markReplayed(ids: readonly string[]): Promise<void> {
    await this.#query(`update ${this.#table} set replayed_at = now() where id = any($1::text[])`, [ids])
  }

  async keep(letters: readonly KeptDeadLetter[]): Promise<void> {
    await this.#query(
      `insert into ${this.#table} as kept (id, error, original_message)
       select id, error::jsonb, original::jsonb from unnest($1::text[], $2::text[], $3::text[]) as given (id, error, original)
       on conflict (id) do update set error = excluded.error, replayed_at = null`,
      [letters.map(({ id }) => id), letters.map(({ error }) => error), letters.map(({ original }) => original)],
    )
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.end().catch(() => undefined)
  }

  async #query<R extends pg.QueryResultRow>(text: string, values: unknown[]): Promise<pg.QueryResult<R>> {
    try {
      if (this.#client === undefined) await this.connect()
      return await this.#client!.query<R>(text, values)
    } catch (thrown) {
      await this.close()
      throw toPostgresError(thrown, `work on the letters in table ${this.#config.table ?? ''}`)
    }
  }
}
