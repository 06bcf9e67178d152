// Each task on a real database: old rows are made old by SQL, by the clock that counts.
import { randomBytes } from 'node:crypto'
import { type Database, openDatabase } from '@brokkr/postgres'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { createOutbound } from '@brokkr/runtime/http-client/outbound-client.ts'
import { createLog, type Log } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { createAdminPak } from '../admin/actions/admin-paks.ts'
import { createAgent } from '../agents/actions/agents.ts'
import { recordHeartbeat } from '../agents/actions/record-heartbeat.ts'
import { systemActor } from '../audit/rules.ts'
import { createLoginLink } from '../auth/actions/login-links.ts'
import { createSession } from '../auth/actions/sessions.ts'
import * as feedState from '../change-feed/store/feed-state.ts'
import { submitDeploymentObject } from '../deployments/actions/submit-deployment-object.ts'
import { createGenerator } from '../generators/actions/generators.ts'
import { createAgentInvite } from '../invites/actions/agent-invites.ts'
import { createSeal } from '../seal.ts'
import { createStack } from '../stacks/actions/stacks.ts'
import { createSender } from '../webhooks/delivery/sender.ts'
import { subscribe } from '../webhooks/delivery/subscribe.fixture.ts'
import { createPartsOpener } from '../webhooks/subscriptions/sealed-parts.ts'
import { freshSubscriptions } from '../webhooks/subscriptions/subscription-cache.ts'
import { listTasks, type TaskSettings } from './index.ts'

const actor = systemActor
const settings: TaskSettings = {
  everySeconds: () => null,
  retentionHours: () => 24,
  silentSeconds: () => 90,
  auditRetentionDays: () => 90,
  auditCleanupSeconds: () => 86_400,
  eventDays: () => 30,
  webhookDeliverySeconds: () => 5,
  webhookCleanupSeconds: () => 3600,
  webhookRetentionDays: () => 7,
  telemetryRetentionSeconds: () => 21_600,
  workOrderSeconds: () => 10,
  workOrderLogDays: () => 365,
  diagnosticCleanupSeconds: () => 900,
  diagnosticHours: () => 1,
}
const logged: string[] = []
const metrics = createMetrics()
let db: TestDatabase
let sql: Database
let client: pg.Client
let stackId: string
let agentId: string
beforeAll(async () => {
  db = await database()
  client = await db.connect()
  sql = openDatabase({ url: db.url, schema: 'public', poolSize: 4 })
  const deps = { sql, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }
  const { generator } = await createGenerator(deps, { name: 'g', description: null, actor })
  const stack = { name: 's', description: null, generatorId: generator.id, labels: ['l'], annotations: {}, drift: 'heal', actor }
  stackId = (await createStack(deps, stack)).id
  agentId = (await createAgent(deps, { name: 'a', cluster_name: 'c', generator_ids: [generator.id], labels: ['l'], actor })).agent.id
  return async () => {
    await client.end()
    await sql.close()
  }
})
/** It may reach nobody: what is claimed here fails. */
const senderOf = (log: Log) => {
  const outbound = createOutbound({}, {})
  const opener = createPartsOpener({ seal: createSeal([randomBytes(32)]), metrics })
  const limits = { batchSize: () => 50, concurrency: () => 64, perSubscription: () => 4 }
  return createSender({ sql, opener, outbound, clock: systemClock, log, metrics }, limits)
}
const run = (name: string, changed: Partial<TaskSettings> = {}) => {
  const log = createLog({ name: 'test', destination: { write: (line: string) => void logged.push(line) } })
  const tasks = listTasks(
    { sql, clock: systemClock, log, metrics, subscriptionCache: freshSubscriptions(), sender: senderOf(log), wakeFeed: () => undefined },
    { ...settings, ...changed },
  )
  return tasks.find((task) => task.name === name)!.run(new AbortController().signal)
}
const countOf = async (text: string): Promise<number> =>
  Number((await client.query<{ n: string }>(`select count(*) as n from ${text}`)).rows[0]!.n)
/** As if everything so far had happened so many hours ago. Transactions of other databases of the server do not hold it back. */
const markOld = (hours: number) =>
  client.query(
    `insert into feed_marks (taken_at, low_xid) values (now() - ${hours} * interval '1 hour', pg_snapshot_xmax(pg_current_snapshot()))`,
  )

test('change-log-cleanup raises the floor and deletes rows older than the retention', async () => {
  expect(await run('change-log-cleanup')).toEqual({ deleted: 0 })
  const old = await countOf('change_log')
  expect(old).toBeGreaterThan(0)
  await markOld(25)
  await client.query(`insert into agent_labels (id, agent_id, label) values (gen_random_uuid(), $1, 'new')`, [agentId])
  const { rows } = await client.query<{ low: string }>('select low_xid::text as low from feed_marks order by taken_at limit 1')
  expect(await run('change-log-cleanup')).toMatchObject({ deleted: old })
  expect(await countOf('change_log')).toBe(1)
  expect((await feedState.read(sql, {})).floor_xid).toBe(rows[0]!.low)
  // Nothing lowers it again, and marks go after twice the retention.
  await markOld(49)
  await client.query(`update feed_marks set low_xid = '3' where taken_at < now() - interval '48 hours'`)
  expect(await run('change-log-cleanup')).toMatchObject({ deleted: 0, marks: 1 })
  expect((await feedState.read(sql, {})).floor_xid).toBe(rows[0]!.low)
})

test('an open transaction keeps the floor below its rows', async () => {
  const slow = await db.connect()
  await slow.query('begin')
  const { rows } = await slow.query<{ xid: string }>('select pg_current_xact_id()::text as xid')
  await slow.query(`insert into agent_labels (id, agent_id, label) values (gen_random_uuid(), $1, 'slow')`, [agentId])
  await client.query(`insert into agent_labels (id, agent_id, label) values (gen_random_uuid(), $1, 'quick')`, [agentId])
  await client.query('delete from feed_marks')
  await run('change-log-cleanup')
  await client.query(`update feed_marks set taken_at = taken_at - interval '26 hours'`)
  await run('change-log-cleanup')
  expect(BigInt((await feedState.read(sql, {})).floor_xid)).toBeLessThanOrEqual(BigInt(rows[0]!.xid))
  await slow.query('commit')
  await slow.end()
  expect(await countOf(`change_log where xid::text = '${rows[0]!.xid}'`)).toBe(1)
})

test('change-log-cleanup deletes a large log in batches of ten thousand rows', async () => {
  await client.query(
    `insert into change_log (scope_kind, scope_id, object_kind, op) select 'agent', gen_random_uuid(), 'agent', 'insert' from generate_series(1, 25000)`,
  )
  await client.query(`delete from feed_marks where taken_at < now() - interval '24 hours'`)
  await markOld(30)
  const calls: number[] = []
  const counting: Database = {
    ...sql,
    query: async (named) => {
      const result = await sql.query(named)
      if (named.name === 'change_log.deleteBelow') calls.push(result.rowCount)
      return result
    },
  }
  const log = createLog({ name: 't', destination: { write: () => undefined } })
  const [task] = listTasks(
    {
      sql: counting,
      clock: systemClock,
      log,
      metrics,
      subscriptionCache: freshSubscriptions(),
      sender: senderOf(log),
      wakeFeed: () => undefined,
    },
    settings,
  )
  await task!.run(new AbortController().signal)
  expect(Math.max(...calls)).toBe(10_000)
  expect(calls.at(-1)).toBe(0)
})

test('agent-liveness disconnects silent agents by database time until the next heartbeat', async () => {
  const state = async () =>
    (await client.query<{ s: string }>('select connection_state as s from agents where id = $1', [agentId])).rows[0]!.s
  const age = (seconds: number) => client.query(`update agent_liveness set last_seen_at = now() - ${seconds} * interval '1 second'`)
  expect([await state(), await run('agent-liveness')]).toEqual(['never', { disconnected: 0 }])
  await recordHeartbeat({ sql, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }, { agentId, heartbeat: {} })
  await age(80)
  expect([await run('agent-liveness'), await state()]).toEqual([{ disconnected: 0 }, 'connected'])
  await age(100)
  const both = await Promise.all([run('agent-liveness'), run('agent-liveness')])
  expect(both.reduce((sum, counts) => sum + counts['disconnected']!, 0)).toBe(1)
  expect(await state()).toBe('disconnected')
  await recordHeartbeat({ sql, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }, { agentId, heartbeat: {} })
  expect(await state()).toBe('connected')
})

test('audit-cleanup drops expired months and creates the next partition', async () => {
  await client.query(`select make_audit_partition('2020-01-15'), make_audit_partition((now() - interval '80 days')::date)`)
  const insert = `insert into audit_logs (id, timestamp, actor_type, action, resource_type) values (gen_random_uuid(), $1, 'system', 'old', 'system')`
  await client.query(insert, ['2020-01-20T00:00:00Z'])
  await client.query(insert, [new Date(Date.now() - 80 * 86_400_000)])
  const partitions = () => countOf(`pg_inherits where inhparent = 'audit_logs'::regclass`)
  const before = await partitions()
  expect(await run('audit-cleanup', { auditRetentionDays: () => 0 })).toEqual({ dropped: 0 })
  expect(await run('audit-cleanup')).toEqual({ dropped: 1 })
  expect([await partitions(), await countOf(`audit_logs where action = 'old'`)]).toEqual([before - 1, 1])
  const [next] = (
    await client.query<{ there: boolean }>(
      `select to_regclass('audit_logs_' || to_char(now() at time zone 'utc' + interval '1 month', 'YYYYMM')) is not null as there`,
    )
  ).rows
  expect(next?.there).toBe(true)
})

test('housekeeping deletes only rows that ended', async () => {
  const seal = createSeal([randomBytes(32)])
  const deps = { sql, seal, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }
  const submit = (yamlContent: string) =>
    submitDeploymentObject(deps, { stackId, yamlContent, isDeletionMarker: false, expectedSequenceId: undefined, actor })
  const [superseded, head] = [await submit('a: 1'), await submit('a: 2')]
  for (const { id } of [superseded, head]) {
    await client.query(
      `insert into agent_object_acks (agent_id, deployment_object_id, last_type, last_status, last_at) values ($1, $2, 'DEPLOY', 'SUCCESS', now() - interval '31 days')`,
      [agentId, id],
    )
    for (const days of [40, 35])
      await client.query(
        `insert into agent_events (id, agent_id, deployment_object_id, stack_id, event_type, status, created_at) values (gen_random_uuid(), $1, $2, $3, 'DEPLOY', 'SUCCESS', now() - $4 * interval '1 day')`,
        [agentId, id, stackId, days],
      )
  }
  await client.query(
    `insert into agent_stack_status (agent_id, stack_id, epoch, rev, phase, received_at) values ($1, $2, gen_random_uuid(), 1, 'removed', now() - interval '49 hours')`,
    [agentId, stackId],
  )
  for (const hours of [0, 2])
    await client.query(
      `insert into agent_sessions (agent_id, process, kind, connected_since, seen_at) values ($1, gen_random_uuid(), 'stream', now(), now() - $2 * interval '1 hour')`,
      [agentId, hours],
    )
  const key = (name: string, expires_at: string | null) => createAdminPak(deps, { name, actor, expires_at })
  const identity = { kind: 'admin', id: (await key('stays', null)).id }
  const session = (seconds: number) => createSession(deps, { identity, pakHash: null, readonly: false, seconds, idleSeconds: 3600, actor })
  await session(3600)
  await session(0)
  for (const seconds of [300, 0])
    await createLoginLink(deps, {
      identity,
      pakHash: null,
      readonly: false,
      seconds,
      baseUrl: 'http://localhost',
      actor,
    })
  const { id: expired } = await key('expired', new Date(Date.now() + 60_000).toISOString())
  await client.query(`update admin_role set expires_at = now() - interval '8 days' where id = $1`, [expired])
  const asked = { preset: 'standard', uses: 1, expires_in_seconds: 60, actor } as const
  const ended = await createAgentInvite(deps, asked)
  await client.query(`update agent_invites set expires_at = now() - interval '8 days' where id = $1`, [ended.id])
  // Ended too, but somebody may still look what became of it.
  const { id: late } = await createAgentInvite(deps, asked)
  await client.query(`update agent_invites set expires_at = now() - interval '1 day' where id = $1`, [late])
  for (const hours of [-1, 1])
    await client.query(
      `insert into idempotency_keys (scope, key, id, body_hash, status, body_sealed, expires_at) values ('s', $1::text, gen_random_uuid(), 'h', 201, '', now() + $2::float8 * interval '1 hour')`,
      [String(hours), hours],
    )
  for (const hours of [25, 23])
    await client.query(
      `insert into plans (id, stack_id, content_sealed, content_checksum, is_deletion_marker, target_digest, by_kind, expires_at)
       select gen_random_uuid(), id, '', '', false, '', 'admin', now() - $1::float8 * interval '1 hour' from stacks limit 1`,
      [hours],
    )
  expect(await run('housekeeping', { eventDays: () => 0 })).toEqual({
    answers: 1,
    connections: 1,
    sessions: 1,
    links: 1,
    invites: 1,
    keys: 1,
    acknowledgements: 1,
    health: 0,
    approvals: 0,
    plans: 1,
    removed_pairs: 1,
    inventories: 0,
    flows: 0,
    events: 0,
  })
  // Of events the newest per agent and object stays, however old it is.
  expect(await run('housekeeping')).toEqual({
    answers: 0,
    connections: 0,
    sessions: 0,
    links: 0,
    invites: 0,
    keys: 0,
    acknowledgements: 0,
    health: 0,
    approvals: 0,
    plans: 0,
    removed_pairs: 0,
    inventories: 0,
    flows: 0,
    events: 2,
  })
  expect([
    await countOf('console_sessions'),
    await countOf('idempotency_keys'),
    await countOf('agent_object_acks'),
    await countOf('agent_events'),
    await countOf('agent_invites'),
  ]).toEqual([1, 1, 1, 2, 1])
  expect(await countOf(`change_log where object_kind = 'session' and op = 'delete'`)).toBe(1)
})

test('target-verify corrects targets that were changed by SQL', async () => {
  const sound = await run('target-verify')
  expect(sound).toEqual({ pairs: 1, differences: 0 })
  await client.query(`update agent_targets set by_annotation = true`)
  await client.query(`insert into stacks (id, name, generator_id) select gen_random_uuid(), 'other', id from generators limit 1`)
  await client.query(
    `insert into agent_targets (id, agent_id, stack_id, by_label) select gen_random_uuid(), $1, id, true from stacks where name = 'other'`,
    [agentId],
  )
  expect(await run('target-verify')).toEqual({ pairs: 2, differences: 2 })
  expect(logged.join()).toContain('targets differ from recount')
  expect(await run('target-verify')).toEqual({ pairs: 1, differences: 0 })
  await client.query('delete from agent_targets')
  expect(await run('target-verify')).toEqual({ pairs: 0, differences: 1 })
  expect(await run('target-verify')).toEqual({ pairs: 1, differences: 0 })
  expect(await metrics.text()).toContain('brokkr_targeting_drift_total 3')
})

test('summary-verify corrects counts that were changed by SQL', async () => {
  expect(await run('summary-verify')).toEqual({ differences: 0 })
  await client.query('update stack_summary set total = total + 5, silent = 3')
  expect((await run('summary-verify'))['differences']).toBeGreaterThan(0)
  expect(logged.join()).toContain('stack counts differ from recount')
  expect(await run('summary-verify')).toEqual({ differences: 0 })
})

test('ended deliveries are deleted in batches after the retention, unfinished ones never', async () => {
  const subscription = await subscribe({ sql: (text, values) => client.query(text, values) }, ['none.at.all'])
  await client.query(
    `insert into webhook_deliveries (id, subscription_id, event_type, event_id, payload, status, created_at, completed_at, next_retry_at)
     select gen_random_uuid(), $1, 'a.b', gen_random_uuid(), '', status, now() - days * interval '1 day',
       case when status <> 'failed' then now() - days * interval '1 day' end,
       case when status = 'failed' then now() + interval '1 day' end
     from (values ('success', 8.0), ('dead', 8.0), ('failed', 8.0), ('success', 6.9), ('dead', 6.9)) d (status, days)`,
    [subscription],
  )
  expect(await run('webhook-cleanup')).toEqual({ unclaimed: 0, deleted: 2 })
  const { rows } = await client.query<{ status: string }>(
    `select status from webhook_deliveries where subscription_id = $1 order by created_at, status`,
    [subscription],
  )
  expect(rows.map(({ status }) => status)).toEqual(['failed', 'dead', 'success'])
  expect(await run('webhook-cleanup', { webhookRetentionDays: () => 6 })).toEqual({ unclaimed: 0, deleted: 2 })
})

test('a delivery without a claiming agent becomes dead and is deleted a retention later', async () => {
  const subscription = await subscribe({ sql: (text, values) => client.query(text, values) }, ['none.at.all'])
  await client.query(
    `insert into webhook_deliveries (id, subscription_id, event_type, event_id, payload, target_labels, created_at)
     select gen_random_uuid(), $1, 'a.b', gen_random_uuid(), '', labels, now() - days * interval '1 day'
     from (values (array['nobody'], 8.0), (array['nobody'], 6.9), (null, 8.0)) d (labels, days)`,
    [subscription],
  )
  expect(await run('webhook-cleanup')).toEqual({ unclaimed: 1, deleted: 0 })
  const ended = `select last_error from webhook_deliveries where subscription_id = $1 and status = 'dead'`
  const { rows } = await client.query<{ last_error: string }>(ended, [subscription])
  expect(rows).toEqual([{ last_error: 'no agent with all target labels (nobody) delivered it within 7 days' }])
  await client.query(
    `update webhook_deliveries set completed_at = now() - interval '8 days' where subscription_id = $1 and status = 'dead'`,
    [subscription],
  )
  expect(await run('webhook-cleanup')).toEqual({ unclaimed: 0, deleted: 1 })
})

test('housekeeping removes old health records and ended prune approvals', async () => {
  const deps = { sql, seal: createSeal([randomBytes(32)]), subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }
  const submit = (yamlContent: string) =>
    submitDeploymentObject(deps, { stackId, yamlContent, isDeletionMarker: false, expectedSequenceId: undefined, actor })
  const [superseded, head] = [await submit('b: 1'), await submit('b: 2')]
  for (const { id } of [superseded, head])
    await client.query(
      `insert into deployment_health (id, agent_id, deployment_object_id, status, checked_at, updated_at) values (gen_random_uuid(), $1, $2, 'healthy', now(), now() - interval '31 days')`,
      [agentId, id],
    )
  await client.query(
    `insert into prune_approvals (id, agent_id, removals, expires_at, used_at, created_by)
     select gen_random_uuid(), $1, 1, now() + expires * interval '1 day', now() + used * interval '1 day', 'admin -' from (values (-8, null), (1, -8), (1, -6), (1, null)) a (expires, used)`,
    [agentId],
  )
  expect(await run('housekeeping')).toMatchObject({ health: 1, approvals: 2 })
  expect([await countOf('deployment_health'), await countOf('prune_approvals')]).toEqual([1, 2])
})
