// SIGKILL at every await of the actions that others rest on: what was answered is kept, and of one action everything is there or nothing.
// long: kills a broker at every await
import { randomUUID } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import { type CrashOutcome, forEveryAwait } from '@brokkr/testing/crash/crash.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import type pg from 'pg'
import { beforeAll, expect, test } from 'vitest'
import { type OneAction, runAction } from './test-parts/one-action.ts'
import { subscribe } from './webhooks/delivery/subscribe.fixture.ts'

let db: TestDatabase
let client: pg.Client
const generator = randomUUID()
beforeAll(async () => {
  db = await database()
  client = await db.connect()
  await client.query(`insert into generators (id, name) values ($1, 'g')`, [generator])
  await subscribe({ sql: (text, values) => client.query(text, values) }, ['*'])
  return () => client.end()
})

/** An agent that has one stack with two revisions and carries a label another stack could match. */
async function fresh(action: OneAction['action']): Promise<OneAction> {
  const [stackId, agentId] = [randomUUID(), randomUUID()]
  const isAimed = action === 'report'
  await client.query('insert into stacks (id, name, generator_id) values ($1, $1::uuid::text, $2)', [stackId, generator])
  await client.query(`insert into agents (id, name, cluster_name, pak_hash) values ($1, $1::uuid::text, 'c', $1::uuid::text)`, [agentId])
  await client.query('insert into agent_liveness (agent_id) values ($1)', [agentId])
  await client.query('insert into agent_generator_registrations (id, agent_id, generator_id) values (gen_random_uuid(), $1, $2)', [
    agentId,
    generator,
  ])
  await client.query('insert into agent_labels (id, agent_id, label) values (gen_random_uuid(), $1, $1::uuid::text)', [agentId])
  const objectIds = isAimed ? [await addObject(stackId), await addObject(stackId)].toReversed() : []
  if (isAimed)
    await client.query('insert into agent_targets (id, agent_id, stack_id, explicit) values (gen_random_uuid(), $1, $2, true)', [
      agentId,
      stackId,
    ])
  const inviteId = randomUUID()
  if (action === 'join')
    await client.query(
      `insert into agent_invites (id, token_hash, token_short, labels, annotations, generator_ids, preset, namespaces, uses, uses_left, expires_at, created_by)
       values ($1, $1::uuid::text, 's', array[$1::uuid::text], '{"k": "v"}', array[$2::uuid], 'standard', '{}', 1, 1, now() + interval '1 hour', 'system')`,
      [inviteId, generator],
    )
  if (action === 'join')
    await client.query('insert into stack_labels (id, stack_id, label) values (gen_random_uuid(), $1, $2)', [stackId, inviteId])
  await client.query('truncate change_log')
  return {
    url: db.url,
    action,
    stackId,
    agentId: action === 'join' ? inviteId : agentId,
    objectIds,
    eventIds: objectIds.map(() => randomUUID()),
  }
}

async function addObject(stackId: string): Promise<string> {
  const id = randomUUID()
  await client.query('begin')
  await client.query(
    'update stacks set last_sequence = last_sequence + 1, sequence_xid = pg_current_xact_id(), head_object_id = $2 where id = $1',
    [stackId, id],
  )
  await client.query(
    `insert into deployment_objects (id, stack_id, sequence_id, yaml_sealed, yaml_bytes, yaml_checksum, created_by_kind)
     select $1, id, last_sequence, '', 0, '', 'system' from stacks where id = $2`,
    [id, stackId],
  )
  await client.query('commit')
  return id
}

/** Every row an action leaves, by what it is for. */
const left: Record<OneAction['action'], { readonly whole: Record<string, number>; readonly sql: string }> = {
  submit: {
    whole: { objects: 1, number: 1, heads: 1, deeds: 1, changes: 1, told: 1 },
    sql: `select (select count(*) from deployment_objects where stack_id = $1)::int as objects,
      (select last_sequence from stacks where id = $1)::int as number,
      (select count(*) from stacks where id = $1 and head_object_id is not null)::int as heads,
      (select count(*) from audit_logs where action = 'deployment.created' and details->>'stack_id' = $1::text)::int as deeds,
      (select count(*) from deployment_objects where stack_id = $1 and xid > '0')::int as changes,
      (select count(*) from webhook_deliveries where payload::json->'data'->>'stack_id' = $1::text)::int as told, $2::uuid is null as unused`,
  },
  retarget: {
    whole: { labels: 1, pairs: 1, counted: 1, deeds: 1, changes: 1 },
    sql: `select (select count(*) from stack_labels where stack_id = $1)::int as labels,
      (select count(*) from agent_targets where stack_id = $1 and agent_id = $2 and by_label)::int as pairs,
      (select coalesce(sum(total), 0) from stack_summary where stack_id = $1)::int as counted,
      (select count(*) from audit_logs where action = 'stack.label_added' and resource_id = $1)::int as deeds,
      (select count(*) from change_log where scope_kind = 'agent' and scope_id = $2 and object_kind = 'target')::int as changes`,
  },
  report: {
    whole: { events: 2, acks: 2, removals: 1, changes: 1, told: 2 },
    sql: `select (select count(*) from agent_events where agent_id = $2)::int as events,
      (select count(*) from agent_object_acks where agent_id = $2)::int as acks,
      (select count(*) from agent_stack_status where agent_id = $2 and stack_id = $1 and phase = 'removed')::int as removals,
      (select count(*) from change_log where scope_id = $1 and object_kind = 'agent_event')::int as changes,
      (select count(*) from webhook_deliveries where payload::json->'data'->>'agent_id' = $2::text)::int as told`,
  },
  // The second id is the invite's: who joins by it has no id before.
  join: {
    whole: { agents: 1, spent: 1, labels: 1, annotations: 1, registrations: 1, pairs: 1, deeds: 2, changes: 1 },
    sql: `with joined as (select id from agents where invite_id = $2)
      select (select count(*) from joined)::int as agents,
      (select uses - uses_left from agent_invites where id = $2)::int as spent,
      (select count(*) from agent_labels where agent_id in (select id from joined))::int as labels,
      (select count(*) from agent_annotations where agent_id in (select id from joined))::int as annotations,
      (select count(*) from agent_generator_registrations where agent_id in (select id from joined))::int as registrations,
      (select count(*) from agent_targets where stack_id = $1 and by_label)::int as pairs,
      (select count(*) from audit_logs where details->>'invite_id' = $2::text or resource_id = $2)::int as deeds,
      (select count(*) from change_log where scope_kind = 'agent' and object_kind = 'target' and scope_id in (select id from joined))::int as changes`,
  },
  rotate: {
    whole: { keys: 1, deeds: 1, changes: 1 },
    sql: `select (select count(*) from agents where id = $2 and pak_hash <> $2::text)::int as keys,
      (select count(*) from audit_logs where action = 'pak.rotated' and resource_id = $2)::int as deeds,
      (select count(*) from change_log where scope_kind = 'control' and object_id = $2)::int as changes, $1::uuid is null as unused`,
  },
}

async function stateOf({ action, stackId, agentId }: OneAction): Promise<Record<string, number>> {
  const { rows } = await client.query<Record<string, number>>(left[action].sql, [stackId, agentId])
  const { unused: _, ...state } = rows[0]!
  return state
}

/** The server notices a dead client first: its transaction must have ended before it is judged. */
const ended = () =>
  waitFor('no session of the killed program is left', async () => {
    const { rowCount } = await client.query(
      `select from pg_stat_activity where application_name = 'one-action' and datname = current_database()`,
    )
    return rowCount === 0
  })

test.each(Object.keys(left) as OneAction['action'][])(
  '[Q3] %s killed at any await: all rows of the action are there or none, all once it was answered, and it can be done again',
  async (action) => {
    const { whole } = left[action]
    const nothing = Object.fromEntries(Object.keys(whole).map((name) => [name, 0]))
    let names: readonly string[] = []
    const check = async (n: number, outcome: CrashOutcome, input: OneAction) => {
      if (n === 0) names = outcome.points
      expect(outcome.failed).toBeUndefined()
      expect(names, 'it answered before its commit did').toContain('wire.commit after')
      await ended()
      const state = await stateOf(input)
      const mustBeCommitted = !outcome.killed || n - 1 >= names.indexOf('wire.commit after')
      const isBefore = outcome.killed && n - 1 <= names.indexOf('wire.commit before')
      // Results of queries that are pipelined with the commit arrive between the two: PostgreSQL has the commit, its answer has not come.
      if (mustBeCommitted || isBefore) expect(state).toEqual(mustBeCommitted ? whole : nothing)
      else expect([whole, nothing]).toContainEqual(state)
      if (mustBeCommitted || isDeepStrictEqual(state, whole)) return
      await runAction(input)
      expect(await stateOf(input)).toEqual(whole)
    }
    const { points, kills } = await forEveryAwait(new URL('./test-parts/one-action.ts', import.meta.url), () => fresh(action), check)
    process.stdout.write(`${action}: ${points.length} awaits found, killed at ${kills}\n`)
    expect(points).toContain('wire.begin before')
    expect(points.at(-1)).toBe('caller.answered after')
    expect(kills).toBe(points.length)
  },
  300_000,
)
