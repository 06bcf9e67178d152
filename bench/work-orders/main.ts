// Claims per second of eight agents with 1,000, 10,000 and 100,000 orders pending, through one broker with shipped defaults: the list of
// pending orders, the claim and the result, as agents send them. The backlog shrinks while it is measured. BENCH_SECONDS sets the time of
// a step, BENCH_BACKLOGS the sizes.
import { randomInt, randomUUID } from 'node:crypto'
import { createSeal } from '@brokkr/broker/seal.ts'
import { createClient } from '@brokkr/contract/client.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import { privatePostgres } from '@brokkr/testing/servers/postgres.ts'
import pg from 'pg'
import { prepareOurs, type Server } from '../broker/servers.ts'
import { percentile, tell } from '../figures.ts'

const seconds = Number(process.env['BENCH_SECONDS'] ?? 10)
const backlogs = (process.env['BENCH_BACKLOGS'] ?? '1000,10000,100000').split(',').map(Number)
const agentCount = 8
const label = 'bench'

const postgres = await privatePostgres({ fsync: true, logicalReplication: false })
const ours = await prepareOurs()
tell('PostgreSQL', 'fsync on, all else as the server ships; broker, database and claimants share this machine')
const { url } = await postgres.database()
const broker = await ours.start(url)
const sql = new pg.Client({ connectionString: url })
await sql.connect()
try {
  const agents = await createAgents(broker)
  for (const backlog of backlogs) {
    await fillUp(backlog)
    await measure(agents, backlog)
  }
} finally {
  await sql.end()
  await broker.stop()
  await postgres.stop()
}

interface Agent {
  readonly id: string
  readonly client: ReturnType<typeof createClient>
}

function clientOf({ port }: Server, pak: string): ReturnType<typeof createClient> {
  return createClient({ baseUrl: `http://127.0.0.1:${port}`, pak: () => pak, userAgent: 'bench' })
}

async function createAgents(server: Server): Promise<Agent[]> {
  const admin = clientOf(server, ours.adminPak)
  const agents: Agent[] = []
  for (let n = 0; n < agentCount; n += 1) {
    const body = { name: `a${n}`, cluster_name: `c${n}`, status: 'ACTIVE' as const, labels: [label] }
    const { agent, initial_pak } = await admin.createAgent({ body })
    agents.push({ id: agent.id, client: clientOf(server, initial_pak) })
  }
  return agents
}

/** Rows by set with the triggers off: a hundred thousand calls would take minutes. */
async function fillUp(backlog: number): Promise<void> {
  const { rows } = await sql.query<{ n: number }>(`select count(*)::int as n from work_orders where status = 'PENDING'`)
  const seal = createSeal([Buffer.from(ours.encryptionKey, 'hex')])
  await sql.query('set session_replication_role = replica; set synchronous_commit = off')
  for (let missing = backlog - (rows[0]?.n ?? 0); missing > 0; missing -= 5_000) {
    const ids = Array.from({ length: Math.min(missing, 5_000) }, () => randomUUID())
    const texts = ids.map((id) => seal.seal({ table: 'work_order_contents', column: 'yaml_sealed', id }, 'a: 1'))
    await sql.query(
      `with made as (
         insert into work_order_contents (id, yaml_sealed, yaml_bytes, request)
         select id, text, 4, '{}' from unnest($1::uuid[], $2::bytea[]) as t (id, text) returning id),
       open as (
         insert into work_orders (id, work_type, match, max_retries, backoff_seconds, claim_timeout_seconds)
         select id, 'custom', 'any', 3, 60, 3600 from made returning id, created_at)
       insert into work_order_labels (work_order_id, label, created_at) select id, $3, created_at from open`,
      [ids, texts, label],
    )
  }
  await sql.query('vacuum (analyze)')
}

async function measure(agents: readonly Agent[], backlog: number): Promise<void> {
  const figures = { claims: [] as number[], lists: [] as number[] }
  const startedMs = performance.now()
  await Promise.all(agents.map((agent) => work(agent, () => performance.now() - startedMs > seconds * 1000, figures)))
  const perSecond = figures.claims.length / ((performance.now() - startedMs) / 1000)
  const times = (sample: readonly number[]) =>
    `p50 ${percentile(sample, 0.5).toFixed(1)} ms · p99 ${percentile(sample, 0.99).toFixed(1)} ms`
  tell(
    `${backlog} pending`,
    `${perSecond.toFixed(0)} claims/s with results · claim ${times(figures.claims)} · list ${times(figures.lists)}`,
  )
}

async function work(agent: Agent, isOver: () => boolean, figures: { claims: number[]; lists: number[] }): Promise<void> {
  while (!isOver()) {
    const listMs = performance.now()
    const pending = await agent.client.listPendingForAgent({ params: { agent_id: agent.id }, query: {} })
    figures.lists.push(performance.now() - listMs)
    if (pending.length === 0) return
    for (const { id } of pending.toSorted(() => randomInt(3) - 1).slice(0, 20)) {
      const claimMs = performance.now()
      const isClaimed = await agent.client.claimWorkOrder({ params: { id }, body: { agent_id: agent.id } }).then(
        () => true,
        (error: unknown) => (error instanceof ApiError && error.status === 404 ? false : Promise.reject(error)),
      )
      if (!isClaimed) continue
      figures.claims.push(performance.now() - claimMs)
      await agent.client.call('completeWorkOrder', { params: { id }, body: { success: true } })
    }
  }
}
