// Dead letters in a table of ClickHouse. A change of a letter is a row with a higher version, which replaces the others of its id.
import type { ClickhouseSink } from '@brokkr/contract/dataflow/connectors/clickhouse.ts'
import type { ConnectorContext } from '../connector.ts'
import type { DeadLetterRow, DeadLetterRows, KeptDeadLetter } from '../dead-letter-rows.ts'
import { ClickhouseClient, type Statement } from './client.ts'
import { toClickhouseError } from './errors.ts'
import { quoteTable } from './sql.ts'

interface LetterRow {
  readonly id: string
  readonly at: string
  readonly error: string
  readonly original: string
}

const answerBytesMax = 256 << 20

export class ClickhouseDeadLetters implements DeadLetterRows {
  readonly #config: ClickhouseSink
  readonly #context: ConnectorContext
  readonly #table: string
  #client: ClickhouseClient | undefined
  #until: string | undefined

  constructor(config: ClickhouseSink, context: ConnectorContext) {
    this.#config = config
    this.#context = context
    this.#table = quoteTable(config.table ?? '')
  }

  async connect(): Promise<void> {
    await this.close()
    this.#client = new ClickhouseClient(this.#config, this.#context)
  }

  async page(flow: string, after: Pick<DeadLetterRow, 'at' | 'id'> | undefined, limit: number): Promise<readonly DeadLetterRow[]> {
    this.#until ??= (await this.#rows<{ now: string }>({ sql: 'select toString(now64(6)) as now' }))[0]!.now
    const behind = after === undefined ? '' : 'and (created_at, id) > (toDateTime64({at:String}, 6), {id:String})'
    const rows = await this.#rows<LetterRow>({
      sql: `select id, toString(created_at) as at, error, original_message as original from ${this.#table} final
        where replayed_at is null and JSONExtractString(error, 'flow') = {flow:String} and created_at <= toDateTime64({until:String}, 6) ${behind}
        order by created_at, id limit ${limit}`,
      params: { flow, until: this.#until, ...(after === undefined ? {} : { at: after.at, id: after.id }) },
      answerBytesMax,
    })
    return rows.map(({ id, at, error, original }) => ({ id, at, letter: `{"error":${error},"original_message":${original}}` }))
  }

  async markReplayed(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#change(ids, 'select id, error, original_message, created_at, now64(6), version + 1')
  }

  /** The letter is not marked, so its row stays open; the error has one attempt more. */
  async keep(letters: readonly KeptDeadLetter[]): Promise<void> {
    const versions = await this.#rows<{ id: string; at: string; version: number }>({
      sql: `select id, toString(created_at) as at, version from ${this.#table} final where id in ({ids:Array(String)})`,
      params: { ids: toArray(letters.map(({ id }) => id)) },
    })
    const byId = new Map(versions.map((row) => [row.id, row]))
    const lines = letters.map(({ id, error, original }) => {
      const stored = byId.get(id)
      return JSON.stringify({
        id,
        error,
        original_message: original,
        version: (stored?.version ?? 0) + 1,
        ...(stored === undefined ? {} : { created_at: stored.at }),
      })
    })
    await this.#run({
      sql: `insert into ${this.#table} (id, error, original_message, created_at, version) format JSONEachRow`,
      body: lines.join('\n'),
    })
  }

  async #change(ids: readonly string[], select: string): Promise<void> {
    await this.#run({
      sql: `insert into ${this.#table} (id, error, original_message, created_at, replayed_at, version)
        ${select} from ${this.#table} final where id in ({ids:Array(String)})`,
      params: { ids: toArray(ids) },
    })
  }

  async close(): Promise<void> {
    const client = this.#client
    this.#client = undefined
    await client?.close()
  }

  #rows<T>(statement: Statement): Promise<T[]> {
    return this.#withClient((client) => client.rows<T>(statement))
  }

  async #run(statement: Statement): Promise<void> {
    await this.#withClient((client) => client.run(statement))
  }

  async #withClient<T>(work: (client: ClickhouseClient) => Promise<T>): Promise<T> {
    try {
      if (this.#client === undefined) await this.connect()
      return await work(this.#client!)
    } catch (thrown) {
      throw toClickhouseError(thrown, `work on the letters in table ${this.#config.table ?? ''}`)
    }
  }
}

/** Ids are hexadecimal digests. */
const toArray = (ids: readonly string[]): string =>
  `[${ids.map((id) => `'${id.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`).join(',')}]`
