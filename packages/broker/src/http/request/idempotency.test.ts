// Calls that are tried again: one effect, one answer, whoever asks and whatever happened in between.
import { randomUUID } from 'node:crypto'
import { openDatabase, toSql } from '@brokkr/postgres'
import { createGenerator, startTestBroker, type TestBroker, type TestGenerator, unique } from '@brokkr/testing/broker.ts'
import { forEveryAwait } from '@brokkr/testing/crash/crash.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { type SubmitWithKey, submitWithKey } from '../../test-parts/submit-with-key.ts'
import * as idempotencyKeys from '../store/idempotency-keys.ts'
import { toKeyScope } from './idempotency.ts'

let db: TestDatabase
let broker: TestBroker
let other: TestBroker
let tenant: TestGenerator
beforeAll(async () => {
  db = await database()
  broker = await startTestBroker({ databaseUrl: db.url })
  other = await broker.sibling()
  tenant = await createGenerator(broker)
  return () => Promise.all([broker.kill(), other.kill()])
})

async function post(path: string, body: unknown, options: { key?: string; at?: TestBroker; pak?: string } = {}) {
  const response = await fetch(`${(options.at ?? broker).url}/api/v1${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${options.pak ?? tenant.pak}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(options.key === undefined ? {} : { 'idempotency-key': options.key }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  const text = await response.text()
  return {
    status: response.status,
    text,
    json: (text === '' ? null : JSON.parse(text)) as { id: string; code: string; details?: Record<string, unknown> },
    isReplay: response.headers.get('idempotency-replayed') === 'true',
    retryAfter: response.headers.get('retry-after'),
  }
}
const rows = async <Row extends object>(text: string, values: unknown[] = []): Promise<Row[]> => {
  const client = await db.connect()
  const found = await client.query<Row>(text, values)
  await client.end()
  return found.rows
}
const newStack = () => tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id } })
const manifest = (value: string) => ({ yaml_content: `apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {v: ${value}}\n` })
const objectsOf = async (stackId: string) => (await rows('select from deployment_objects where stack_id = $1', [stackId])).length

test('a repeated call with an Idempotency-Key gets the stored response in every process', async () => {
  const stack = await newStack()
  const [path, body, key] = [`/stacks/${stack.id}/deployment-objects`, manifest('one'), randomUUID()]
  const first = await post(path, body, { key })
  const again = await Promise.all([broker, other, broker].map((at) => post(path, body, { key, at })))
  expect([first.status, first.isReplay]).toEqual([201, false])
  for (const answer of again) expect([answer.status, answer.isReplay, answer.text]).toEqual([201, true, first.text])
  expect(await objectsOf(stack.id)).toBe(1)
  // Without the key, or under another one, it is another call.
  expect((await post(path, body)).json.id).not.toBe(first.json.id)
  expect((await post(path, body, { key: randomUUID() })).json.id).not.toBe(first.json.id)
})

test('concurrent calls with one Idempotency-Key have one effect', async () => {
  const stack = await newStack()
  const key = 'visible~ASCII!only'
  const answers = await Promise.all(
    Array.from({ length: 40 }, (_, n) =>
      post(`/stacks/${stack.id}/deployment-objects`, manifest('x'), { key, at: n % 2 === 0 ? broker : other }),
    ),
  )
  expect(await objectsOf(stack.id)).toBe(1)
  expect(answers.filter(({ status, isReplay }) => status === 201 && !isReplay)).toHaveLength(1)
  for (const { status, isReplay, json, retryAfter } of answers) {
    if (status === 409) expect([json.code, retryAfter]).toEqual(['idempotency_in_progress', '1'])
    else expect([status, isReplay || json.id !== undefined]).toEqual([201, true])
  }
})

test('a repeated call during the first returns idempotency_in_progress', async () => {
  const stack = await newStack()
  const [path, key] = [`/stacks/${stack.id}/deployment-objects`, randomUUID()]
  // Held here, it stands for a call of another process that has not ended yet.
  const scope = toKeyScope({ kind: 'generator', id: tenant.generator.id, isMasked: false }, 'POST', `/api/v1${path}`)
  const holder = await db.connect()
  await holder.query('begin')
  await idempotencyKeys.tryLock(toSql(holder), { scope, key })
  const refused = await post(path, manifest('held'), { key, at: other })
  expect(refused).toMatchObject({ status: 409, retryAfter: '1', json: { code: 'idempotency_in_progress' } })
  await holder.query('rollback')
  await holder.end()
  expect((await post(path, manifest('held'), { key })).status).toBe(201)
  expect((await post(path, manifest('held'), { key, at: other })).isReplay).toBe(true)
  expect(await objectsOf(stack.id)).toBe(1)
})

test('an Idempotency-Key with another body is refused, and a failed call frees it', async () => {
  const stack = await newStack()
  const [path, key] = [`/stacks/${stack.id}/deployment-objects`, randomUUID()]
  expect((await post(path, { yaml_content: 'a: [' }, { key })).json.code).toBe('invalid_deployment_object')
  expect((await post(`${path}?expected_sequence_id=7`, manifest('a'), { key })).json.code).toBe('stack_moved')
  expect((await post(path, manifest('a'), { key })).status).toBe(201)
  expect(await post(path, manifest('b'), { key })).toMatchObject({ status: 422, json: { code: 'idempotency_key_reused' } })
  expect((await post(`${path}?expected_sequence_id=1`, manifest('a'), { key })).json.code).toBe('idempotency_key_reused')
  expect(await objectsOf(stack.id)).toBe(1)
  // Nothing of a failed call stays, its audit row included.
  expect(await rows(`select from audit_logs where action = 'deployment.created' and details->>'stack_id' = $1`, [stack.id])).toHaveLength(1)
})

test('an Idempotency-Key is scoped to one caller and path', async () => {
  const key = randomUUID()
  const neighbour = await createGenerator(broker)
  const mine = await newStack()
  const path = (id: string) => `/stacks/${id}/labels`
  const theirs = await neighbour.client.createStack({ body: { name: unique('s'), generator_id: neighbour.generator.id } })
  const answers = [
    await post(path(mine.id), 'a:b', { key }),
    await post(path(theirs.id), 'a:b', { key, pak: neighbour.pak }),
    await post(path(theirs.id), 'a:b', { key, pak: broker.adminPak }),
    await post(path(mine.id), 'a:b', { key }),
  ]
  expect(answers.map(({ status, isReplay }) => [status, isReplay])).toEqual([
    [201, false],
    [201, false],
    [409, false],
    [201, true],
  ])
})

test('a response with a secret is not stored, and the repeated call returns the id', async () => {
  const key = randomUUID()
  const made = await post('/generators', { name: unique('g') }, { key, pak: broker.adminPak })
  expect(made.status).toBe(201)
  const { generator, pak } = JSON.parse(made.text) as { generator: { id: string; name: string }; pak: string }
  const again = await post('/generators', { name: generator.name }, { key, pak: broker.adminPak, at: other })
  expect(again).toMatchObject({ status: 409, json: { code: 'secret_already_issued', details: { id: generator.id } } })
  expect(again.text).not.toContain(pak)
  const admin = await post('/admin/paks', { name: 'k' }, { key, pak: broker.adminPak })
  expect((await post('/admin/paks', { name: 'k' }, { key, pak: broker.adminPak })).json.details).toEqual({ id: admin.json.id })
  await post('/auth/session', {}, { key, pak: broker.adminPak })
  const session = await post('/auth/session', {}, { key, pak: broker.adminPak })
  expect([session.status, session.json.code]).toEqual([409, 'secret_already_issued'])
})

test('stored responses are encrypted and expire', async () => {
  const stack = await newStack()
  const [path, key, canary] = [`/stacks/${stack.id}/deployment-objects`, randomUUID(), unique('CANARY')]
  const first = await post(path, manifest(canary), { key })
  const stored = await rows<{ text: string }>("select encode(body_sealed, 'escape') as text from idempotency_keys where key = $1", [key])
  expect(stored).toHaveLength(1)
  expect(stored[0]!.text).not.toContain(canary)
  await rows("update idempotency_keys set expires_at = now() - interval '1 second' where key = $1", [key])
  const later = await post(path, manifest(canary), { key })
  expect([later.status, later.isReplay, later.json.id === first.json.id]).toEqual([201, false, false])
  expect((await post(path, manifest(canary), { key })).json.id).toBe(later.json.id)
})

test.each(['', 'with space', 'ümlaut', 'x'.repeat(256)])('a key that is no key (%s) is refused', async (key) => {
  const response = await fetch(`${broker.url}/api/v1/auth/pak`, {
    method: 'POST',
    headers: { authorization: `Bearer ${tenant.pak}`, 'idempotency-key': Buffer.from(key).toString('latin1') },
  })
  expect([response.status, ((await response.json()) as { code: string }).code]).toEqual([422, 'validation_failed'])
})

test('operations without a body accept an Idempotency-Key', async () => {
  const key = randomUUID()
  const [first, second] = [await post('/auth/pak', undefined, { key }), await post('/auth/pak', undefined, { key, at: other })]
  expect([first.isReplay, second.isReplay, second.text]).toEqual([false, true, first.text])
})

test('a keyed submission killed at any await is atomic, and a retry has one effect', async () => {
  const encryptionKey = 'cd'.repeat(32)
  const own = await database()
  const sql = openDatabase({ url: own.url, schema: 'public', poolSize: 2 })
  const client = await own.connect()
  await client.query(`insert into generators (id, name) values (gen_random_uuid(), 'g')`)
  const fresh = async (n: number): Promise<SubmitWithKey> => {
    const made = await client.query<{ id: string }>(
      `insert into stacks (id, name, generator_id) select gen_random_uuid(), $1, id from generators returning id`,
      [`s${n}`],
    )
    const scope = toKeyScope({ kind: 'admin', id: 'x', isMasked: false }, 'POST', `/${n}`)
    return {
      url: own.url,
      encryptionKey,
      stackId: made.rows[0]!.id,
      call: { scope, key: 'k', bodyHash: 'h', issuesSecret: false, callsNetwork: false },
    }
  }
  const state = async ({ stackId, call }: SubmitWithKey) => {
    const { rows: found } = await client.query<Record<string, number>>(
      `select (select count(*)::int from deployment_objects where stack_id = $1) as objects,
              (select last_sequence::int from stacks where id = $1) as number,
              (select count(*)::int from audit_logs where details->>'stack_id' = $1::text) as deeds,
              (select count(*)::int from deployment_objects where stack_id = $1 and xid > '0') as changes,
              (select count(*)::int from idempotency_keys where scope = $2) as keys`,
      [stackId, call.scope],
    )
    return found[0]!
  }
  const whole = { objects: 1, number: 1, deeds: 1, changes: 1, keys: 1 }
  const nothing = { objects: 0, number: 0, deeds: 0, changes: 0, keys: 0 }
  const { kills } = await forEveryAwait(
    new URL('../../test-parts/submit-with-key.ts', import.meta.url),
    fresh,
    async (_, outcome, input) => {
      // The server notices the dead client first: its transaction must have ended before it is judged.
      await waitFor('no session of the killed program is left', async () => {
        const { rows: left } = await client.query(
          "select from pg_stat_activity where application_name = 'brokkr' and state like '%transaction%'",
        )
        return left.length === 0
      })
      const before = await state(input)
      expect([whole, nothing]).toContainEqual(before)
      if (!outcome.killed) expect(before).toEqual(whole)
      const retried = await submitWithKey(input, sql)
      expect([retried.status, retried.isReplay]).toEqual([201, before['objects'] === 1])
      expect(await state(input)).toEqual(whole)
    },
    { pick: size('Q3.seededAwaits') === null ? null : 6 },
  )
  expect(kills).toBeGreaterThan(8)
  await client.end()
  await sql.close()
}, 600_000)
