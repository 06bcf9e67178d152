// long: starts more than one broker
import { createGenerator, unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { readWatch, type StreamReader } from '@brokkr/testing/stream-reader.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({
    BROKKR__FEED__PING_SECONDS: '0.2',
    BROKKR__FEED__QUEUE_KEYS: '50',
    // Rows written by hand are announced by nobody.
    BROKKR__FEED__POLL_MS: '200',
  })
  return () => world.broker.kill()
})
const watch = (pak: string, scopes: readonly string[], cursor?: string): Promise<StreamReader> =>
  readWatch(world.broker.url, { pak, scopes, ...(cursor === undefined ? {} : { cursor }) })
const changes = (stream: StreamReader) => stream.frames.flatMap((frame) => (frame.type === 'change' ? [`${frame.kind} ${frame.id}`] : []))

test('a watch reports changes of its stack only', async () => {
  const label = unique('l')
  const [stack, other] = [await world.stack([label]), await world.stack()]
  const agent = await world.agent([label])
  const stream = await watch(world.broker.adminPak, [`stack:${stack.id}`])
  expect(await stream.frame('hello')).toMatchObject({ mode: 'reset', protocol: 1 })
  await world.submit(other.id, 'x')
  const object = await world.submit(stack.id, 'x')
  await stream.frame('change', ({ kind, id, op }) => kind === 'deployment_object' && id === object.id && op === 'insert')
  const report = { stack_id: stack.id, rev: 1, object_id: object.id, phase: 'applied' as const, observed_at: new Date().toISOString() }
  await agent.client.reportStatus({ params: { id: agent.agent.id }, body: { session: 1, n: 1, stacks: [report] } })
  await stream.frame('change', ({ scope, kind, id }) => scope === `stack_status:${stack.id}` && kind === 'status' && id === agent.agent.id)
  expect(stream.frames.some((frame) => frame.type === 'change' && !frame.scope.endsWith(stack.id))).toBe(false)
  // Whatever was told is covered by the bookmark that follows it.
  await stream.bookmarkAfter(stream.frames.findLast((frame) => frame.type === 'change')!)
  stream.close()
})

test('a generator’s watch includes its future stacks, and an agent’s watch its targets', async () => {
  const label = unique('l')
  const { generator, pak } = world.tenant
  const before = await world.stack([label])
  const agent = await world.agent([label])
  const stream = await watch(pak, [`generator:${generator.id}`])
  await stream.frame('hello')
  const after = await world.stack()
  await stream.frame('change', ({ kind, id, op }) => kind === 'stack' && id === after.id && op === 'insert')
  const objects = [await world.submit(before.id, 'x'), await world.submit(after.id, 'x')]
  for (const { id } of objects) await stream.frame('change', (frame) => frame.id === id)
  stream.close()
  const mine = await watch(agent.pak, [`agent:${agent.agent.id}`, `stack:${before.id}`])
  expect((await mine.frame('hello')).mode).toBe('reset')
  mine.close()

  const stranger = await createGenerator(world.broker)
  const refused: [string, string[]][] = [
    [stranger.pak, [`generator:${generator.id}`]],
    [stranger.pak, [`generator:${stranger.generator.id}`, `stack:${before.id}`]],
    [pak, [`agent:${agent.agent.id}`]],
    [pak, ['kind:stack']],
    [agent.pak, [`stack:${after.id}`]],
    [agent.pak, [`generator:${generator.id}`]],
  ]
  for (const [key, scopes] of refused) expect((await watch(key, scopes)).status, scopes.join()).toBe(403)
  for (const scope of ['stack', 'stack:1', 'kind:', 'planet:earth']) expect((await watch(world.broker.adminPak, [scope])).status).toBe(400)
  const many = Array.from({ length: 65 }, () => 'kind:stack')
  expect((await watch(world.broker.adminPak, many)).status).toBe(400)
})

test('a watch resumes from its cursor and is reset if that is too old or of another epoch', async () => {
  const stack = await world.stack()
  const scopes = [`stack:${stack.id}`]
  const first = await watch(world.broker.adminPak, scopes)
  const { cursor } = await first.frame('bookmark')
  first.close()
  const object = await world.submit(stack.id, 'missed')
  const again = await watch(world.broker.adminPak, scopes, cursor)
  expect(await again.frame('hello')).toMatchObject({ mode: 'resume' })
  const latest = await again.bookmarkAfter(await again.frame('change', ({ id }) => id === object.id))
  again.close()
  const caughtUp = await watch(world.broker.adminPak, scopes, latest.cursor)
  expect(await caughtUp.frame('hello')).toMatchObject({ mode: 'resume' })
  await caughtUp.frame('bookmark')
  expect(changes(caughtUp)).toEqual([])
  caughtUp.close()

  expect((await watch(world.broker.adminPak, scopes, 'made-up')).status).toBe(400)
  for (let n = 0; n < 60; n += 1) await world.submit(stack.id, `${n}`)
  const tooMuch = await watch(world.broker.adminPak, scopes, cursor)
  expect(await tooMuch.frame('hello')).toMatchObject({ mode: 'reset' })
  tooMuch.close()
  // A process that has just started remembers nothing from before.
  const other = await world.broker.sibling()
  const elsewhere = await readWatch(other.url, { pak: world.broker.adminPak, scopes, cursor: latest.cursor })
  expect(await elsewhere.frame('hello')).toMatchObject({ mode: 'reset' })
  elsewhere.close()
  await other.kill()
})

test('a watch of an agent reports resources for its labels, including new labels', async () => {
  const [early, late] = [unique('l'), unique('l')]
  const agent = await world.agent([early])
  const stream = await world.follow(agent)
  await stream.frame('snapshot_end')
  await stream.frame('bookmark')
  const orderFor = (label: string) =>
    world.sql(
      `insert into change_log (scope_kind, scope_id, object_kind, object_id, op) values ('label', md5($1)::uuid, 'work_order', gen_random_uuid(), 'insert')`,
      [label],
    )
  await orderFor(early)
  await stream.frame('look', ({ what }) => what === 'work_orders')
  const looks = () => stream.frames.filter((frame) => frame.type === 'look' && frame.what === 'work_orders').length
  await orderFor(late)
  await world.broker.admin.agentsAddLabel({ params: { id: agent.agent.id }, body: { agent_id: agent.agent.id, label: late } })
  await stream.frame('look', ({ what }) => what === 'agent')
  const before = looks()
  await orderFor(late)
  await waitFor('a look by the new label', () => looks() > before)
  stream.close()
})
