import { randomUUID } from 'node:crypto'
import { database } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'

let at: Awaited<ReturnType<typeof database>>
let client: pg.Client
let stack: string
let agent: string
beforeAll(async () => {
  at = await database()
  client = await at.connect()
  const generator = randomUUID()
  stack = randomUUID()
  agent = randomUUID()
  await client.query(`insert into generators (id, name) values ('${generator}', 'g')`)
  await client.query(`insert into stacks (id, name, generator_id) values ('${stack}', 's', '${generator}')`)
  await client.query(`insert into agents (id, name, cluster_name) values ('${agent}', 'a', 'c')`)
  return () => client.end()
})

const takeNumber = () =>
  client.query<{ n: string }>(
    `update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = gen_random_uuid() where id = '${stack}' returning last_sequence as n`,
  )
const insertObject = (sequence: number | string, id = 'coalesce(head_object_id, gen_random_uuid())', xid?: string) =>
  client.query(
    `insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind${xid === undefined ? '' : ', xid'})
     select ${id}, id, ${sequence}, '', 0, '', 'admin'${xid === undefined ? '' : `, '${xid}'`} from stacks where id = '${stack}' returning id`,
  )

/** Runs statements in one transaction that is rolled back; tells the SQLSTATE that ended it. */
async function attempt(...statements: (() => Promise<unknown>)[]): Promise<string | null> {
  await client.query('begin')
  try {
    for (const statement of statements) await statement()
    return null
  } catch (error) {
    return (error as { code: string }).code
  } finally {
    await client.query('rollback')
  }
}
const rowsOf = async (work: () => Promise<unknown>): Promise<string[]> => {
  const { rows: before } = await client.query<{ seq: string }>('select coalesce(max(seq), 0) as seq from change_log')
  await work()
  const { rows } = await client.query<{ row: string }>(
    `select scope_kind || ' ' || object_kind || ' ' || op as row from change_log where seq > ${before[0]!.seq} order by seq`,
  )
  return rows.map(({ row }) => row)
}

test('[S51] a stack change without a sequence number fails and is rolled back', async () => {
  const refused = 'BK003'
  expect(await attempt(() => client.query(`update stacks set name = 'other' where id = '${stack}'`))).toBe(refused)
  expect(await attempt(() => client.query(`update stacks set drift = 'off' where id = '${stack}'`))).toBe(refused)
  expect(await attempt(() => client.query(`update stacks set deleted_at = now() where id = '${stack}'`))).toBe(refused)
  // A bound that moves agents to another object.
  const bound = `held_object_id = gen_random_uuid(), held_sequence = 1`
  expect(await attempt(() => client.query(`update stacks set ${bound} where id = '${stack}'`))).toBe(refused)
  expect(await attempt(() => client.query(`update stacks set last_sequence = last_sequence - 1 where id = '${stack}'`))).toBe(refused)
  // Raised by hand, and still not taken by this transaction: whoever comes back with a cursor would not be told.
  expect(await attempt(() => client.query(`update stacks set name = 'other', last_sequence = last_sequence + 1`))).toBe(refused)
  expect(await attempt(() => insertObject(0))).toBe(refused)
  expect(await attempt(() => insertObject(99))).toBe(refused)
  // The number of an earlier transaction is the stack's current one, and still not this transaction's own.
  const { rows } = await takeNumber()
  expect(await attempt(() => insertObject(rows[0]!.n))).toBe(refused)
  expect(await attempt(takeNumber, () => insertObject(Number(rows[0]!.n) + 1))).toBeNull()
  // Nor may it name another transaction than its own: it would be news to nobody.
  expect(await attempt(takeNumber, () => insertObject(Number(rows[0]!.n) + 1, undefined, '77'))).toBe(refused)
  // A note of the number taken counts for its own transaction, head and stack alone, and as long as it is not rolled back.
  const next = Number(rows[0]!.n) + 1
  const sql = (text: string) => () => client.query(text)
  expect(await attempt(takeNumber, takeNumber, () => insertObject(next))).toBe(refused)
  expect(await attempt(takeNumber, takeNumber, () => insertObject(next + 1))).toBeNull()
  expect(await attempt(sql('savepoint a'), takeNumber, sql('rollback to a'), () => insertObject(next))).toBe(refused)
  expect(await attempt(takeNumber, sql('update stacks set head_object_id = gen_random_uuid()'), () => insertObject(next))).toBeNull()
  const ownHead = randomUUID()
  const take = sql(
    `update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = '${ownHead}' where id = '${stack}'`,
  )
  expect(await attempt(take, () => insertObject(next, `'${ownHead}'::uuid`))).toBeNull()
  expect(
    await attempt(take, sql('update stacks set head_object_id = gen_random_uuid()'), () => insertObject(next, `'${ownHead}'::uuid`)),
  ).toBe(refused)
  const noted = (await client.query<{ noted: string }>(`select coalesce(current_setting('brokkr.taken', true), '') as noted`)).rows[0]!
    .noted
  expect(noted).toBe('')
  // Nor may a revision be newer than what everybody would find as the newest.
  expect(await attempt(takeNumber, () => insertObject(Number(rows[0]!.n) + 1, 'gen_random_uuid()'))).toBe(refused)
  expect(
    await attempt(takeNumber, () =>
      client.query(`update stacks set name = 'other', last_sequence = last_sequence + 1 where id = '${stack}'`),
    ),
  ).toBeNull()
  const stored = await client.query(`select from deployment_objects where stack_id = '${stack}'`)
  expect(stored.rowCount).toBe(0)
})

test('a deployment object is deleted only with a sequence number of the same transaction', async () => {
  await client.query('begin')
  const { rows } = await takeNumber()
  await insertObject(rows[0]!.n)
  await client.query('commit')
  const update = (what: string) => () => client.query(`update deployment_objects set ${what} where stack_id = '${stack}'`)
  expect(await attempt(update('deleted_at = now()'))).toBe('BK003')
  expect(await attempt(takeNumber, update('deleted_at = now(), updated_at = now()'))).toBeNull()
  const { rows: columns } = await client.query<{ name: string; value: string }>(
    `select attname as name, case format_type(atttypid, null) when 'uuid' then 'gen_random_uuid()' when 'boolean' then 'not ' || attname
       when 'bytea' then $$'x'$$ when 'timestamp with time zone' then $$now() + interval '1 s'$$ when 'text' then $$'x'$$ when 'xid8' then $$'77'$$ else '77' end as value
     from pg_attribute where attrelid = 'deployment_objects'::regclass and attnum > 0 and not attisdropped`,
  )
  expect(columns.length).toBeGreaterThan(12)
  const others = columns.filter(({ name }) => name !== 'deleted_at')
  const reseal = () => client.query(`set local brokkr.reseal = 'on'`)
  for (const { name, value } of others) {
    const change = `${name} = ${value}`
    // As it is, together with what is allowed, in a transaction that took a number, and while secrets are sealed anew.
    expect(await attempt(update(change)), name).toBe('BK001')
    expect(await attempt(takeNumber, update(change)), name).toBe('BK001')
    if (name !== 'updated_at') expect(await attempt(takeNumber, update(`${change}, deleted_at = now()`)), name).toBe('BK001')
    expect(await attempt(reseal, update(change)), name).toBe(name === 'yaml_sealed' ? null : 'BK001')
    if (name !== 'yaml_sealed') expect(await attempt(reseal, update(`${change}, yaml_sealed = 'y'`)), name).toBe('BK001')
  }
  // Deleted once: neither taken back nor set again.
  await client.query('begin')
  await takeNumber()
  await update('deleted_at = now()')()
  await client.query('commit')
  expect(await attempt(takeNumber, update('deleted_at = null'))).toBe('BK001')
  expect(await attempt(takeNumber, update(`deleted_at = now() + interval '1 s'`))).toBe('BK001')
})

test('hard deletes and truncates of resources that agents read are refused', async () => {
  for (const table of ['agents', 'stacks', 'deployment_objects']) {
    expect(await attempt(() => client.query(`delete from ${table}`)), table).toBe('BK004')
    expect(await attempt(() => client.query(`truncate ${table} cascade`)), table).toBe('BK004')
  }
  expect(await attempt(() => client.query('truncate agent_targets'))).toBe('BK004')
  expect(
    await attempt(
      () => client.query("set local brokkr.purge = 'on'"),
      () => client.query(`delete from deployment_objects where stack_id = '${stack}'`),
    ),
  ).toBeNull()
})

test('a stack with deployment objects cannot be deleted or get another id', async () => {
  const orphan = `insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
     values (gen_random_uuid(), gen_random_uuid(), 1, '', 0, '', 'admin')`
  expect(await attempt(() => client.query(orphan))).toBe('BK003')
  const { rows } = await client.query<{ id: string }>(
    `insert into stacks (id, name, generator_id) select gen_random_uuid(), 'goes', generator_id from stacks where id = '${stack}' returning id`,
  )
  const id = rows[0]!.id
  const purge = () => client.query("set local brokkr.purge = 'on'")
  const remove = () => client.query(`delete from stacks where id = '${id}'`)
  expect(await attempt(purge, remove)).toBeNull()
  expect(await attempt(() => client.query(`update stacks set id = gen_random_uuid() where id = '${id}'`))).toBe('23503')
  // Another connection submits; its transaction is open when the removal begins.
  const other = await at.connect()
  await other.query('begin')
  await other.query(
    `with taken as (update stacks set last_sequence = 1, sequence_xid = pg_current_xact_id(), head_object_id = gen_random_uuid() where id = '${id}' returning *)
     insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
     select head_object_id, id, 1, '', 0, '', 'admin' from taken`,
  )
  await client.query('begin')
  await purge()
  const removal = remove().then(
    () => null,
    (error: { code: string }) => error.code,
  )
  await waitFor('the removal to wait', async () => {
    const { rows: waiting } = await other.query<{ n: number }>(
      `select count(*)::int as n from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`,
    )
    return waiting[0]!.n > 0
  })
  await other.query('commit')
  await other.end()
  expect(await removal).toBe('23503')
  await client.query('rollback')
  expect(await attempt(purge, remove)).toBe('23503')
  expect(await attempt(purge, () => client.query(`delete from deployment_objects where stack_id = '${id}'`), remove)).toBeNull()
})

test('a target that ends creates a pending removal for every writer', async () => {
  const begun = await rowsOf(() =>
    client.query(`insert into agent_targets (id, agent_id, stack_id, explicit) values (gen_random_uuid(), '${agent}', '${stack}', true)`),
  )
  expect(begun).toEqual(['agent target insert', 'stack_status target insert'])
  const ended = await rowsOf(() => client.query('delete from agent_targets'))
  expect(ended).toContain('agent target delete')
  const { rows } = await client.query('select phase, code from agent_stack_status')
  expect(rows).toEqual([{ phase: 'pending', code: 'removing' }])
})

test('a new target clears a removal, so its end creates another one', async () => {
  const status = async () =>
    (await client.query<{ s: string }>(`select phase || ' ' || coalesce(code, '') as s from agent_stack_status`)).rows[0]?.s
  const aim = () =>
    client.query(`insert into agent_targets (id, agent_id, stack_id, explicit) values (gen_random_uuid(), '${agent}', '${stack}', true)`)
  /** As the agent tells it of the number it was told, which may be behind. */
  const removed = (behind = 0) =>
    client.query(
      `update agent_stack_status set phase = 'removed', code = null, object_id = null, rev = (select last_sequence from stacks where id = '${stack}') - ${behind}`,
    )
  /** As events of an agent of the first version tell it, which name the revision and no number. */
  const removedByEvent = () =>
    client.query(
      `update agent_stack_status set phase = 'removed', code = null, rev = 0, object_id = (select head_object_id from stacks where id = '${stack}')`,
    )
  const submit = async (isMarker: boolean) => {
    await client.query('begin')
    const { rows } = await takeNumber()
    await client.query(
      `insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind, is_deletion_marker)
       select head_object_id, id, ${rows[0]!.n}, '', 0, '', 'admin', ${isMarker} from stacks where id = '${stack}'`,
    )
    await client.query('commit')
  }
  const end = async () => {
    await client.query('delete from agent_targets')
    return status()
  }
  await removed()
  await aim()
  expect(await status()).toBe('pending applying')
  const [gone, owed] = ['removed ', 'pending removing']
  const cases: [what: string, submitted: readonly boolean[], report: () => Promise<unknown>, since: readonly boolean[], ended: string][] = [
    ['nothing since', [false, true], removed, [], gone],
    ['only markers since', [false, true], removed, [true, true], gone],
    ['a revision since', [false, true], removed, [false], owed],
    ['a revision and a marker since', [false, true], removed, [false, true], owed],
    ['a late report of what a revision has followed', [true, false], () => removed(1), [], owed],
    ['a late report that only a marker has followed', [false, true], () => removed(1), [], gone],
    ['a report of more than the stack ever had', [true], () => removed(-1), [], owed],
    ['an event, and nothing since', [true], removedByEvent, [], gone],
    ['an event, and a revision since', [true], removedByEvent, [false], owed],
  ]
  for (const [what, submitted, report, since, ended] of cases) {
    for (const isMarker of submitted) await submit(isMarker)
    await report()
    for (const isMarker of since) await submit(isMarker)
    expect(await status(), what).toBe(gone)
    expect(await end(), what).toBe(ended)
    // What ended stays as it is, whatever comes; a new pair starts anew.
    await submit(false)
    expect(await status(), what).toBe(ended)
    await aim()
    expect(await status(), what).toBe('pending applying')
  }
})

test('audit rows cannot be updated or deleted', async () => {
  await client.query(
    `insert into audit_logs (id, actor_type, action, resource_type) values (gen_random_uuid(), 'system', 'test', 'system')`,
  )
  expect(await attempt(() => client.query("update audit_logs set action = 'x'"))).toBe('BK002')
  expect(await attempt(() => client.query('delete from audit_logs'))).toBe('BK002')
  expect(await attempt(() => client.query('truncate audit_logs'))).toBe('BK002')
})

test('each table writes the rows its followers need, and unimportant columns write none', async () => {
  expect(
    await rowsOf(() => client.query(`update agents set agent_version = '1', connection_state = 'connected' where id = '${agent}'`)),
  ).toEqual([])
  expect(await rowsOf(() => client.query(`update agents set status = 'ACTIVE' where id = '${agent}'`))).toEqual(['agent agent update'])
  expect((await rowsOf(() => client.query(`update agents set pak_hash = 'x' where id = '${agent}'`))).toSorted()).toEqual([
    'agent agent update',
    'control agent update',
  ])
  expect(
    await rowsOf(() => client.query(`insert into agent_labels (id, agent_id, label) values (gen_random_uuid(), '${agent}', 'l')`)),
  ).toEqual(['agent agent update'])
  expect(
    (
      await rowsOf(() => client.query(`insert into stack_labels (id, stack_id, label) values (gen_random_uuid(), '${stack}', 'l')`))
    ).toSorted(),
  ).toEqual(['generator stack update', 'stack_status stack update'])
  expect((await rowsOf(() => client.query(`update stacks set description = 'd' where id = '${stack}'`))).toSorted()).toEqual([
    'generator stack update',
    'stack_status stack update',
  ])
  expect(await rowsOf(() => client.query(`update stacks set updated_at = now() where id = '${stack}'`))).toEqual([])
  expect(await rowsOf(() => client.query('update agent_liveness set last_seen_at = now()'))).toEqual([])
})

test('a changed subscription and due deliveries notify every process once per statement', async () => {
  const subscription = randomUUID()
  const control = (op: string) => [`control webhook_subscription ${op}`]
  const insert = `insert into webhook_subscriptions (id, name, url_sealed, secret_sealed, event_types) values ('${subscription}', 's', '', '', '{*}')`
  expect(await rowsOf(() => client.query(insert))).toEqual(control('insert'))
  expect(await rowsOf(() => client.query('update webhook_subscriptions set enabled = false'))).toEqual(control('update'))
  const deliveries = (labels: string) =>
    client.query(`insert into webhook_deliveries (id, subscription_id, event_type, event_id, payload, target_labels)
      select gen_random_uuid(), '${subscription}', 'a.b', gen_random_uuid(), '', labels::text[] from unnest(array[${labels}]) as l (labels)`)
  expect(await rowsOf(() => deliveries(`null, '{}', null`))).toEqual(['task webhook_delivery insert'])
  expect(await rowsOf(() => deliveries(`'{x,y}', '{x}'`))).toEqual(['label webhook_delivery insert'])
  expect((await rowsOf(() => deliveries(`'{y,x}', null`))).toSorted()).toEqual([
    'label webhook_delivery insert',
    'task webhook_delivery insert',
  ])
  const { rows } = await client.query(`select from change_log where scope_kind = 'label' and scope_id = md5('x')::uuid`)
  expect(rows).toHaveLength(1)
  const move = (to: string) => rowsOf(() => client.query(`update webhook_deliveries set ${to} where target_labels is null`))
  expect(await move(`status = 'failed', next_retry_at = now()`)).toEqual([])
  expect(await move(`status = 'pending', next_retry_at = null`)).toEqual(['task webhook_delivery update'])
  expect(await move(`status = 'acquired', acquired_until = now()`)).toEqual([])
  expect(await rowsOf(() => client.query('delete from webhook_subscriptions'))).toEqual(control('delete'))
  expect((await client.query('select from webhook_deliveries')).rows).toEqual([])
})
