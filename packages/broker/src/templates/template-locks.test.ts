// A new version of a template and the deletion of its generator take their locks in one order.
import { createGenerator, startTestBroker, type TestBroker, unique } from '@brokkr/testing/broker.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { ask } from '../http/server/http-call.fixture.ts'

let broker: TestBroker
let client: pg.Client
let observer: pg.Client
beforeAll(async () => {
  broker = await startTestBroker()
  client = new pg.Client({ connectionString: broker.databaseUrl })
  observer = new pg.Client({ connectionString: broker.databaseUrl })
  await Promise.all([client.connect(), observer.connect()])
  return async () => {
    await Promise.all([client.end(), observer.end()])
    await broker.kill()
  }
})

const body = { template_content: 'a: {{ b }}\n', parameters_schema: '{}' }

test('an update that waits for the deletion of its generator holds no lock that the deletion needs', async () => {
  const { generator, client: tenant, pak } = await createGenerator(broker)
  const template = await tenant.createTemplate({ body: { name: unique('t'), ...body } })
  // As the deletion of the generator begins.
  await client.query('begin')
  await client.query('select from generators where id = $1 for update', [generator.id])
  const updating = ask(broker, `PUT /templates/${template.id}`, { pak, body })
  await waitFor('the update to wait', async () => {
    const { rowCount } = await observer.query(
      `select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database() and query like '%generators%'`,
    )
    return rowCount === 1
  })
  await client.query(`set local lock_timeout = '1s'`)
  const { rowCount } = await client.query('update stack_templates set deleted_at = now() where id = $1', [template.id])
  await client.query('update generators set deleted_at = now() where id = $1', [generator.id])
  await client.query('commit')
  expect(rowCount).toBe(1)
  const { status, code } = await updating
  expect([status, code]).toEqual([404, 'template_not_found'])
})
