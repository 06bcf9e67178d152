// What telling costs where nobody listens, and what a process knows of subscriptions.
import { randomBytes } from 'node:crypto'
import { type Database, openDatabase, type Sql, type Tx } from '@brokkr/postgres'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { beforeAll, expect, test } from 'vitest'
import { systemActor as actor } from '../../audit/rules.ts'
import { submitDeploymentObject } from '../../deployments/actions/submit-deployment-object.ts'
import { createGenerator } from '../../generators/actions/generators.ts'
import { createSeal } from '../../seal.ts'
import { createStack } from '../../stacks/actions/stacks.ts'
import { createSubscriptionCache } from '../subscriptions/subscription-cache.ts'
import { enqueueDeliveries } from './enqueue.ts'
import { subscribe } from './subscribe.fixture.ts'

let sql: Database
let send: (text: string, values?: unknown[]) => Promise<unknown>
beforeAll(async () => {
  const db = await database()
  sql = openDatabase({ url: db.url, schema: 'public', poolSize: 2 })
  const client = await db.connect()
  send = (text, values) => client.query(text, values)
  return () => Promise.all([sql.close(), client.end()])
})

/** The same database, and the names of what it is asked. */
function listened(): { sql: Sql; names: string[] } {
  const names: string[] = []
  const around = (inner: Sql): Sql => ({
    query: (named) => {
      names.push(named.name)
      return inner.query(named)
    },
    begin: (work) => inner.begin((tx) => work(aroundTx(tx))),
  })
  const aroundTx = (inner: Tx): Tx => ({
    ...around(inner),
    pipeline: (ask) => inner.pipeline((on) => ask(around(on))),
    commitWith: (ask, matchedEvents) => inner.commitWith((on) => ask(around(on)), matchedEvents),
  })
  return { sql: around(sql), names }
}
const created = { type: 'stack.created', at: '2026-01-02T03:04:05.000000Z', data: {} } as const

test('an action without a matching subscription sends no extra statement', async () => {
  let isTrusted = true
  const heard = listened()
  const deps = {
    sql: heard.sql,
    seal: createSeal([randomBytes(32)]),
    wakeFeed: () => undefined,
    subscriptionCache: createSubscriptionCache({ isTrusted: () => isTrusted }),
  }
  const { generator } = await createGenerator(deps, { name: 'g', description: null, actor })
  const input = { name: 's', description: null, generatorId: generator.id, labels: [], annotations: {}, drift: 'heal', actor }
  const { id: stackId } = await createStack(deps, input)
  const submit = async () => {
    heard.names.length = 0
    await submitDeploymentObject(deps, { stackId, yamlContent: 'a: 1', isDeletionMarker: false, expectedSequenceId: undefined, actor })
    return [...heard.names]
  }
  const bare = ['stacks.takeHead', 'deployment_objects.insert', 'audit_logs.insert']
  expect(await submit()).toEqual(bare)
  await subscribe({ sql: send }, ['stack.*'])
  deps.subscriptionCache.drop()
  const [first, ...others] = bare
  expect(await submit()).toEqual([first, 'webhook_subscriptions.enabled', ...others])
  expect(await submit()).toEqual(bare)
  await subscribe({ sql: send }, ['deployment.created'])
  expect(await submit()).toEqual(bare) // not heard of yet
  isTrusted = false
  expect(await submit()).toEqual([
    first,
    'webhook_subscriptions.enabled',
    ...others,
    'webhook_subscriptions.enabled',
    'webhook_deliveries.insertMany',
  ])
})

test('subscriptions read before a drop are not cached', async () => {
  const subscriptionCache = createSubscriptionCache({ isTrusted: () => true })
  const late: Sql = {
    ...sql,
    query: async (named) => {
      const result = await sql.query(named)
      subscriptionCache.drop() // somebody changed one while the answer was on its way
      return result
    },
  }
  await subscriptionCache.enabled(late)
  const heard = listened()
  await subscriptionCache.enabled(heard.sql)
  await subscriptionCache.enabled(heard.sql)
  expect(heard.names).toEqual(['webhook_subscriptions.enabled'])
})

test('unknown filters match no event and are counted', async () => {
  const metrics = createMetrics()
  const id = await subscribe({ sql: send }, ['*'])
  await send(`update webhook_subscriptions set filters = '["what"]' where id = $1`, [id])
  await enqueueDeliveries(sql, createSubscriptionCache({ isTrusted: () => true, metrics }), [created])
  const { rows } = (await send('select from webhook_deliveries where subscription_id = $1', [id])) as { rows: unknown[] }
  expect(rows).toEqual([])
  expect(await metrics.text()).toContain('brokkr_webhook_filters_unreadable_total 1')
})
