import { unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld()
  return () => world.broker.kill()
})

test('an approval of removals wakes the agent, travels with its next snapshot, once, and ends after an hour', async () => {
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

test('an approval of a revision is open while it is the newest, and used by the report that it was applied', async () => {
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
