// The rows that are there when change capture begins: read by COPY from one snapshot, in batches of bounded size.
import { StringDecoder } from 'node:string_decoder'
import type pg from 'pg'
import copyStreams from 'pg-copy-streams'
import { readRelation, snapshotLiteral } from './cdc-slot.ts'
import type { Relation } from './pgoutput.ts'
import { copyValues } from './postgresql-values.ts'
import { commaSeparated, quoted, quotedTable } from './sql.ts'

const rowsMax = 1_000
const bytesMax = 1 << 20

/** One transaction for all tables. With a name exactly the slot's point; without, this moment: the stream repairs the overlap. */
export async function beginSnapshot(client: pg.Client, snapshot: string | undefined): Promise<void> {
  await client.query('begin isolation level repeatable read read only')
  if (snapshot !== undefined) await client.query(`set transaction snapshot ${snapshotLiteral(snapshot)}`)
}

export async function* snapshotRows(client: pg.Client, table: string): AsyncGenerator<{ relation: Relation; rows: (string | null)[][] }> {
  const relation = await readRelation(client, table)
  const list = commaSeparated(relation.columns.map(({ name }) => quoted(name)))
  const stream = client.query(copyStreams.to(`copy (select ${list} from ${quotedTable(table)}) to stdout`))
  const decoder = new StringDecoder('utf8')
  let [rest, bytes, rows] = ['', 0, [] as (string | null)[][]]
  for await (const chunk of stream as AsyncIterable<Buffer>) {
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
