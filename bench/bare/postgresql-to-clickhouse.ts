// The bare loop: keyset pages of a table as JSON text, each page one insert, one in the air while the next is read. No tracker, no
// labels, no checks of values, no metrics.
import pg from 'pg'

const [url, from, server, to, countText] = process.argv.slice(2) as [string, string, string, string, string]
const client = new pg.Client({ connectionString: url })
await client.connect()
await client.query(`set timezone to 'UTC'`)
const insert = async (lines: string): Promise<void> => {
  const search = new URLSearchParams({
    query: `insert into ${to} format JSONEachRow`,
    wait_end_of_query: '1',
    date_time_input_format: 'best_effort',
    input_format_parallel_parsing: '0',
  })
  const answer = await fetch(`${server}&${search}`, { method: 'POST', body: lines })
  if (!answer.ok) throw new Error(await answer.text())
  await answer.arrayBuffer()
}
let writing: Promise<void> = Promise.resolve()
let last = ['-infinity', '-1']
let readCount = 0
const startedMs = performance.now()
while (readCount < Number(countText)) {
  const { rows } = await client.query<{ row: string; change: string; ord: string }>({
    name: 'page',
    text: `select row_to_json(q)::text as row, updated_at::text as change, id::text as ord from ${from} as q
      where (updated_at, id) > ($1::timestamptz, $2::int) order by updated_at, id limit 10000`,
    values: last,
  })
  readCount += rows.length
  const end = rows.at(-1)!
  last = [end.change, end.ord]
  await writing
  writing = insert(rows.map(({ row }) => row).join('\n'))
}
await writing
process.stdout.write(`${JSON.stringify({ seconds: (performance.now() - startedMs) / 1000, read: readCount, written: readCount })}\n`)
process.exit(0)
