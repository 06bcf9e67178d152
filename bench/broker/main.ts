// Our broker beside the bare one, on one PostgreSQL with fsync on, 32 connections: requests per second, p99, CPU per request of
// broker and database, rounds interleaved, medians. Then cost against history and fleet size, memory, start, and revocation.
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import { tell } from '../figures.ts'
import { compare } from './compare.ts'
import { curves } from './curves.ts'
import { rest } from './rest.ts'
import { prepareOurs } from './servers.ts'

const parts = { compare, curves, rest }
const wanted = (process.env['BENCH_PARTS'] ?? Object.keys(parts).join()).split(',') as (keyof typeof parts)[]
const postgres = await privatePostgres({ fsync: true, logicalReplication: false })
const ours = await prepareOurs()
tell('PostgreSQL', 'fsync on, shared_buffers and all else as the server ships; broker and bare: pool 50')
try {
  for (const part of wanted) await parts[part]({ postgres, ours })
} finally {
  await postgres.stop()
}
