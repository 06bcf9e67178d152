// What telling costs where nobody listens, and what a process knows of subscriptions.
import { randomBytes } from 'node:crypto'
import { createMetrics } from '@brokkr/runtime/metrics.ts'
import { database } from '@brokkr/testing/postgres.ts'
import { beforeAll, expect, test } from 'vitest'
import { createGenerator } from '../actions/create-generator.ts'
import { createStack } from '../actions/create-stack.ts'
import { submitDeploymentObject } from '../actions/submit-deployment-object.ts'
import { systemActor as by } from '../domain/actor.ts'
import { createSeal } from '../seal.ts'
import { type Database, openDatabase } from '../store/db.ts'
import type { Sql, Tx } from '../store/sql.ts'
import { enqueue } from './enqueue.ts'
import { subscribe } from './subscribe.fixture.ts'
import { keepSubscriptions } from './subscriptions.ts'

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
    together: (ask) => inner.together((on) => ask(around(on))),
    last: (ask, told) => inner.last((on) => ask(around(on)), told),
  })
  return { sql: around(sql), names }
}
const created = { type: 'stack.created', at: '2026-01-02T03:04:05.000000Z', data: {} } as const

test('with no subscription that wants it, an action sends not one statement more, and none to look', async () => {
  let isTrusted = true
  const heard = listened()
  const deps = {
    sql: heard.sql,
    seal: createSeal([randomBytes(32)]),
    wakeFeed: () => undefined,
    hooks: keepSubscriptions({ isTrusted: () => isTrusted }),
  }
  const { generator } = await createGenerator(deps, { name: 'g', description: null, by })
  const input = { name: 's', description: null, generatorId: generator.id, labels: [], annotations: {}, drift: 'heal', by }
  const { id: stackId } = await createStack(deps, input)
  const submit = async () => {
    heard.names.length = 0
    await submitDeploymentObject(deps, { stackId, yamlContent: 'a: 1', isDeletionMarker: false, expectedSequenceId: undefined, by })
    return [...heard.names]
  }
  const bare = ['stacks.takeHead', 'deployment_objects.insert', 'audit_logs.insert']
  expect(await submit()).toEqual(bare)
  await subscribe({ sql: send }, ['stack.*'])
  deps.hooks.drop()
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

test('what was read before a drop is not kept after it', async () => {
  const hooks = keepSubscriptions({ isTrusted: () => true })
  const late: Sql = {
    ...sql,
    query: async (named) => {
      const result = await sql.query(named)
      hooks.drop() // somebody changed one while the answer was on its way
      return result
    },
  }
  await hooks.enabled(late)
  const heard = listened()
  await hooks.enabled(heard.sql)
  await hooks.enabled(heard.sql)
  expect(heard.names).toEqual(['webhook_subscriptions.enabled'])
})

test('filters that nobody understands let nothing pass, and are counted', async () => {
  const metrics = createMetrics()
  const id = await subscribe({ sql: send }, ['*'])
  await send(`update webhook_subscriptions set filters = '["what"]' where id = $1`, [id])
  await enqueue(sql, keepSubscriptions({ isTrusted: () => true, metrics }), [created])
  const { rows } = (await send('select from webhook_deliveries where subscription_id = $1', [id])) as { rows: unknown[] }
  expect(rows).toEqual([])
  expect(await metrics.text()).toContain('brokkr_webhook_filters_unreadable_total 1')
})
