// Eight claimants race for a thousand orders through three broker processes that are killed meanwhile. Each order is completed once, and no
// claim lasts longer than its timeout and two seconds.
// long: a thousand orders through three brokers
import { randomInt } from 'node:crypto'
import { ApiError } from '@brokkr/contract/errors.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { createAgent, startTestBroker, type TestAgent, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'

const orders = 1000
const claimants = 8
const timeoutSeconds = 4
const type = unique('race')
const brokers: TestBroker[] = []
let client: pg.Client
const agents: TestAgent[] = []
beforeAll(async () => {
  const first = await startTestBroker({ env: { BROKKR__LOG__LEVEL: 'info' } })
  brokers.push(first, await first.sibling(), await first.sibling())
  client = new pg.Client({ connectionString: first.databaseUrl })
  await client.connect()
  for (let n = 0; n < claimants; n++) agents.push(await createAgent(first, { generators: [], labels: [type] }))
  return async () => {
    await client.end()
    await Promise.all(brokers.map((broker) => broker.kill()))
  }
}, 120_000)

/** Calls any broker until one answers; a killed one is replaced meanwhile. */
async function call<T>(agent: TestAgent, what: (through: TestAgent['client']) => Promise<T>): Promise<T> {
  for (;;) {
    const broker = brokers[randomInt(brokers.length)]!
    try {
      return await what(broker.clientOf(agent.pak))
    } catch (error) {
      const isAnswer = error instanceof ApiError && error.status < 500 && error.status !== 401 && error.status !== 429
      if (isAnswer) throw error
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}
const codeOf = async (answer: Promise<unknown>): Promise<string> =>
  answer.then(
    () => 'ok',
    (error: unknown) => (error instanceof ApiError ? error.code : Promise.reject(error)),
  )

interface Tally {
  completed: number
  abandoned: number
  readonly codes: Set<string>
}

/** Takes pending orders in any order; every twentieth claim is abandoned, as by an agent that dies. */
async function work(agent: TestAgent, tally: Tally): Promise<void> {
  const agent_id = agent.agent.id
  for (let claims = 0; ; ) {
    const pending = await call(agent, (through) => through.listPendingForAgent({ params: { agent_id }, query: { work_type: type } }))
    if (pending.length === 0 && (await openOrders()) === 0) return
    for (const { id } of pending.toSorted(() => randomInt(3) - 1).slice(0, 25)) {
      const claim = await call(agent, (through) => through.claimWorkOrder({ params: { id }, body: { agent_id } })).catch(
        (error: unknown) => {
          if (error instanceof ApiError && error.code === 'work_order_not_claimable') return null
          throw error
        },
      )
      if (claim === null) continue
      if (++claims % 20 === 0) {
        tally.abandoned++
        continue
      }
      const body = { success: true, attempt: claim.attempt ?? 0 }
      const code = await codeOf(call(agent, (through) => through.call('completeWorkOrder', { params: { id }, body })))
      if (code === 'ok') tally.completed++
      tally.codes.add(code)
    }
    if (pending.length === 0) await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

const one = async <Row extends pg.QueryResultRow>(text: string, values: unknown[] = []): Promise<Row> =>
  (await client.query<Row>(text, values)).rows[0]!
const openOrders = async (): Promise<number> =>
  (await one<{ n: number }>('select count(*)::int as n from work_orders where work_type = $1', [type])).n

test('each order is completed once, and no claim outlives its timeout by two seconds', async () => {
  await mapBounded(Array.from({ length: orders }), 12, (_, n) =>
    brokers[n % brokers.length]!.admin.createWorkOrder({
      body: {
        work_type: type,
        yaml_content: 'a: 1',
        targeting: { labels: [type] },
        max_retries: 100,
        backoff_seconds: 1,
        claim_timeout_seconds: timeoutSeconds,
      },
    }),
  )
  const tally: Tally = { completed: 0, abandoned: 0, codes: new Set() }
  const racing = new AbortController()
  let longestSeconds = 0
  const watching = (async () => {
    while (!racing.signal.aborted) {
      const { age } = await one<{ age: number }>(
        `select coalesce(max(extract(epoch from clock_timestamp() - claimed_at)), 0)::float8 as age from work_orders where status = 'CLAIMED'`,
      )
      longestSeconds = Math.max(longestSeconds, age)
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  })()
  const race = Promise.all(agents.map((agent) => work(agent, tally))).finally(() => racing.abort())
  for (let kills = 0; kills < 6; kills++) {
    await waitFor('progress', async () => racing.signal.aborted || (await openOrders()) < orders - (kills + 1) * 120, { limitMs: 120_000 })
    const at = kills % brokers.length
    await brokers[at]!.kill('SIGKILL')
    brokers[at] = await brokers[at]!.again()
  }
  await race
  await watching
  const { logged, succeeded } = await one<{ logged: number; succeeded: number }>(
    'select count(*)::int as logged, count(*) filter (where success)::int as succeeded from work_order_log where work_type = $1',
    [type],
  )
  expect([logged, succeeded]).toEqual([orders, orders])
  const ends = await client.query<{ n: number }>(
    `select count(*)::int as n from audit_logs where action = 'workorder.completed' and details->>'work_type' = $1 group by resource_id`,
    [type],
  )
  expect([ends.rows.length, ends.rows.filter(({ n }) => n !== 1)]).toEqual([orders, []])
  // The answer to a completion can be lost with its broker; its repetition finds no open order.
  expect([...tally.codes].filter((code) => !['ok', 'work_order_not_found', 'work_order_not_claimed_by_agent'].includes(code))).toEqual([])
  expect(tally.abandoned).toBeGreaterThan(20)
  expect(longestSeconds).toBeLessThan(timeoutSeconds + 2)
}, 300_000)
