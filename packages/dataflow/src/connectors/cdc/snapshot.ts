// Reads existing rows by COPY from one snapshot, in batches of limited size. A snapshot may last as long as the sinks need; only a server
// that sends nothing while rows are requested times out.
import { StringDecoder } from 'node:string_decoder'
import type pg from 'pg'
import copyStreams from 'pg-copy-streams'
import { ConnectorError } from '../connector.ts'
import { commaSeparated, quoteName, quoteTable } from '../postgresql/sql.ts'
import { copyValues } from '../postgresql/values.ts'
import type { Relation } from './pgoutput.ts'
import { readRelation, snapshotLiteral } from './slot.ts'

const rowsMax = 1_000
const bytesMax = 1 << 20
const silentMs = 330_000

/** One transaction for all tables. With a snapshot name exactly at the slot's position; without one at the current time, and the stream
 *  corrects the overlap. */
export async function beginSnapshot(client: pg.Client, snapshot: string | undefined, serverVersion: number): Promise<void> {
  // Timeouts configured for the role or database would end a snapshot with a slow sink.
  const limits = ['statement_timeout', 'idle_in_transaction_session_timeout', ...(serverVersion >= 170_000 ? ['transaction_timeout'] : [])]
  await client.query(limits.map((limit) => `set ${limit} to 0`).join('; '))
  await client.query('begin isolation level repeatable read read only')
  if (snapshot !== undefined) await client.query(`set transaction snapshot ${snapshotLiteral(snapshot)}`)
}

export async function* snapshotRows(client: pg.Client, table: string): AsyncGenerator<{ relation: Relation; rows: (string | null)[][] }> {
  const relation = await readRelation(client, table)
  const list = commaSeparated(relation.columns.map(({ name }) => quoteName(name)))
  const stream = client.query(copyStreams.to(`copy (select ${list} from ${quoteTable(table)}) to stdout`))
  const decoder = new StringDecoder('utf8')
  let [rest, bytes, rows] = ['', 0, [] as (string | null)[][]]
  for await (const chunk of readChunks(stream, table)) {
    const lines = (rest + decoder.write(chunk)).split('\n')
    rest = lines.pop() ?? ''
    for (const line of lines) {
      rows.push(copyValues(line))
      bytes += line.length
      if (rows.length < rowsMax && bytes < bytesMax) continue
      yield { relation, rows }
      ;[rows, bytes] = [[], 0]
    }
  }
  if (rows.length > 0) yield { relation, rows }
}

/** Time without a request for a chunk does not count. */
async function* readChunks(stream: copyStreams.CopyToStreamQuery, table: string): AsyncGenerator<Buffer> {
  const chunks = (stream as AsyncIterable<Buffer>)[Symbol.asyncIterator]()
  for (;;) {
    const silent = setTimeout(() => stream.destroy(createTimeoutError(table)), silentMs)
    const next = await chunks.next().finally(() => clearTimeout(silent))
    if (next.done === true) return
    yield next.value
  }
}

const createTimeoutError = (table: string) =>
  new ConnectorError(
    { class: 'transient', type: 'timeout' },
    `the snapshot of ${table} got no row for ${silentMs / 1000} s: check for a lock on the table; retrying`,
  )
