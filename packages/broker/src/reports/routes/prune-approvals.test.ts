import { randomUUID } from 'node:crypto'
import { openDatabase } from '@brokkr/postgres'
import { unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { beforeAll, expect, test } from 'vitest'
import * as pruneApprovals from '../store/prune-approvals.ts'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld()
  return () => world.broker.kill()
})

test('a removal approval is sent once with the next snapshot and expires after an hour', async () => {
  const agent = await world.agent()
  const params = { id: agent.agent.id }
  const stream = await world.follow(agent)
  expect(await stream.frame('snapshot_begin')).toMatchObject({ allow_removals: null })
  await stream.frame('bookmark')
  const looks = () => stream.frames.filter((frame) => frame.type === 'look' && frame.what === 'agent').length
  const before = looks()
  const approval = await world.broker.admin.approvePrune({ params, body: { removals: 12 } })
  expect(approval).toMatchObject({ agent_id: agent.agent.id, removals: 12, stack_id: null, sequence_id: null })
  expect(Date.parse(approval.expires_at!) - Date.parse(approval.created_at)).toBe(3_600_000)
  await stream.frame('look', ({ what }) => what === 'agent' && looks() > before)
  for (const client of [world.broker.admin, agent.client]) expect(await client.listPruneApprovals({ params })).toEqual([approval])
  stream.close()
  const next = await world.follow(agent)
  expect(await next.frame('snapshot_begin')).toMatchObject({ allow_removals: 12 })
  await next.frame('bookmark')
  next.close()
  expect(await agent.client.listPruneApprovals({ params })).toEqual([])
  const third = await world.follow(agent)
  expect(await third.frame('snapshot_begin')).toMatchObject({ allow_removals: null })
  third.close()

  const late = await world.broker.admin.approvePrune({ params, body: { removals: 3 } })
  await world.sql(`update prune_approvals set expires_at = now() - interval '1 second' where id = $1`, [late.id])
  const fourth = await world.follow(agent)
  expect(await fourth.frame('snapshot_begin')).toMatchObject({ allow_removals: null })
  fourth.close()
  const audited = await world.sql<{ details: object }>(`select details from audit_logs where action = 'prune.approved' order by created_at`)
  expect(audited.map(({ details }) => details)).toEqual([
    expect.objectContaining({ removals: 12 }),
    expect.objectContaining({ removals: 3 }),
  ])
})

test('a held removal, a denied manifest and a used approval are in the audit log once each', async () => {
  const label = unique('l')
  const agent = await world.agent([label])
  const { stack, object } = await submitTo(label)
  let n = 0
  const report = (phase: 'held' | 'failed' | 'applied', code: string | null) =>
    agent.client.reportStatus({
      params: { id: agent.agent.id },
      body: {
        session: 1,
        n: ++n,
        stacks: [{ stack_id: stack.id, rev: object.sequence_id, object_id: object.id, phase, code, observed_at: new Date().toISOString() }],
      },
    })
  await report('held', 'prune_guard')
  await report('held', 'prune_guard')
  await report('failed', 'policy_denied')
  await report('failed', 'policy_denied')
  const { id } = await world.broker.admin.approvePrune({
    params: { id: agent.agent.id },
    body: { stack_id: stack.id, sequence_id: object.sequence_id },
  })
  await report('applied', null)
  await report('applied', null)
  const entries = await world.sql<{ action: string; resource_id: string; details: object }>(
    `select action, resource_id, details from audit_logs where actor_id = $1 and action in ('prune.held', 'policy.denied', 'prune.used') order by timestamp, id`,
    [agent.agent.id],
  )
  expect(entries).toEqual([
    { action: 'prune.held', resource_id: stack.id, details: expect.objectContaining({ agent_id: agent.agent.id }) as object },
    { action: 'policy.denied', resource_id: stack.id, details: expect.objectContaining({ agent_id: agent.agent.id }) as object },
    { action: 'prune.used', resource_id: agent.agent.id, details: { approval_id: id } },
  ])
})

async function submitTo(label: string) {
  const { tenant } = world
  const stack = await tenant.client.createStack({ body: { name: unique('s'), generator_id: tenant.generator.id, labels: [label] } })
  const object = await tenant.client.createDeploymentObject({ params: { id: stack.id }, body: { yaml_content: 'a: 1' } })
  return { stack, object }
}

test('of many snapshots of one agent at the same moment one claims the approval', async () => {
  const { agent } = await world.agent()
  const sql = openDatabase({ url: world.db.url, schema: 'public', poolSize: 8 })
  const claim = (snapshot_id: string) => pruneApprovals.claimRemovals(sql, { agent_id: agent.id, snapshot_id, lease_seconds: 60 })
  const snapshots = Array.from({ length: 8 }, () => randomUUID())
  await world.broker.admin.approvePrune({ params: { id: agent.id }, body: { removals: 7 } })
  const claims = await Promise.all(snapshots.map(claim))
  expect(claims.filter((claimed) => claimed !== null)).toEqual([{ removals: 7 }])
  const winner = snapshots[claims.findIndex((claimed) => claimed !== null)]!
  await pruneApprovals.releaseClaims(sql, { snapshot_id: winner })
  expect(await claim(snapshots[0]!)).toEqual({ removals: 7 })
  await pruneApprovals.markUsed(sql, { snapshot_id: snapshots[0]! })
  expect(await claim(snapshots[1]!)).toBeNull()
  await sql.close()
})

test('a claim of a killed process blocks the approval until its lease expires', async () => {
  const agent = await world.agent()
  const params = { id: agent.agent.id }
  const { id } = await world.broker.admin.approvePrune({ params, body: { removals: 9 } })
  const allowed = async () => {
    const stream = await world.follow(agent)
    const { allow_removals } = await stream.frame('snapshot_begin')
    await stream.frame('snapshot_end')
    stream.close()
    return allow_removals
  }
  await world.sql(`insert into prune_approval_claims values ($1, gen_random_uuid(), now() + interval '1 minute')`, [id])
  expect(await allowed()).toBeNull()
  await world.sql(`update prune_approval_claims set claimed_until = now() - interval '1 second' where approval_id = $1`, [id])
  expect(await allowed()).toBe(9)
})

test('a prune approval is valid for the head and used when it is applied', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const agent = await world.agent([label])
  const params = { id: agent.agent.id }
  const [first, second] = [await world.submit(stack.id, '1'), await world.submit(stack.id, '2')]
  const approve = (sequence_id: number) => world.broker.admin.approvePrune({ params, body: { stack_id: stack.id, sequence_id } })
  await approve(first.sequence_id)
  const open = await approve(second.sequence_id)
  expect(open).toMatchObject({ removals: null, stack_id: stack.id, sequence_id: 2, expires_at: null })
  expect((await agent.client.listPruneApprovals({ params })).map(({ id }) => id)).toEqual([open.id])
  const report = { stack_id: stack.id, rev: 2, object_id: second.id, phase: 'applied', observed_at: new Date().toISOString() } as never
  await agent.client.reportStatus({ params, body: { session: 1, n: 1, stacks: [report] } })
  expect(await agent.client.listPruneApprovals({ params })).toEqual([])
})

test.each([
  ['nothing', {}, 'validation_failed'],
  ['both forms', { removals: 1, stack_id: '0a000000-0000-4000-8000-000000000001', sequence_id: 1 }, 'validation_failed'],
  ['half a form', { sequence_id: 1 }, 'validation_failed'],
  ['an unknown stack', { stack_id: '0a000000-0000-4000-8000-000000000001', sequence_id: 1 }, 'stack_not_found'],
])('%s is refused', async (_what, body, code) => {
  const agent = await world.agent()
  await expect(world.broker.admin.approvePrune({ params: { id: agent.agent.id }, body: body })).rejects.toMatchObject({ code })
})
