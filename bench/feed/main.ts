// The feed under load, on one host: every (stack, rev) that was committed is accounted for, and what is missing stands beside the
// percentiles. BENCH_SCALE makes it smaller, BENCH_PARTS takes some of it.
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { prepareOurs } from '../broker/servers.ts'
import { tell } from '../figures.ts'
import { idle } from './crowd.ts'
import { fanOut } from './fan-out.ts'
import { latency } from './latency.ts'
import { writes } from './writes.ts'

const parts = { latency, fanOut, idle, writes }
const wanted = (process.env['BENCH_PARTS'] ?? Object.keys(parts).join()).split(',') as (keyof typeof parts)[]
const postgres = await privatePostgres({ fsync: true, logicalReplication: false })
const ours = await prepareOurs()
tell('PostgreSQL', 'fsync on, all else as the server ships; broker, database, writer and readers share this machine')
try {
  for (const part of wanted) await parts[part]({ postgres, ours })
} finally {
  await postgres.stop()
}
