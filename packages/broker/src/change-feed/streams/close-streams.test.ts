// Connections whose credential died while the feed reported nothing: the triggers are off, as after a missed change row.
import { createGenerator, unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { readWatch } from '@brokkr/testing/stream-reader.ts'
import { beforeAll, expect, test } from 'vitest'
import { subscribe } from '../../webhooks/delivery/subscribe.fixture.ts'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__FEED__RECHECK_SECONDS: '0.3' })
  return () => world.broker.kill()
})

test('the recheck closes only watches of generators whose PAK is invalid', async () => {
  const { pak, generator } = await createGenerator(world.broker)
  const scopes = [`generator:${generator.id}`]
  const stays = await readWatch(world.broker.url, { pak: world.broker.adminPak, scopes })
  const ends = await readWatch(world.broker.url, { pak, scopes })
  await Promise.all([stays.frame('hello'), ends.frame('hello')])
  await world.sql('alter table generators disable trigger user')
  await world.sql(`update generators set pak_hash = repeat('0', 64) where id = $1`, [generator.id])
  await world.sql('alter table generators enable trigger user')
  expect(await ends.frame('bye')).toMatchObject({ reason: 'revoked' })
  expect(stays.frames.some((frame) => frame.type === 'bye')).toBe(false)
  stays.close()
})

test('agent.connected names the stream as transport when the agent has one', async () => {
  await subscribe(world, ['agent.connected'])
  const [streaming, polling] = [await world.agent([unique('l')]), await world.agent([unique('l')])]
  const stream = await world.follow(streaming)
  await stream.frame('snapshot_end')
  for (const { client, agent } of [streaming, polling]) await client.recordHeartbeat({ params: { id: agent.id } })
  const transports = await world.sql<{ id: string; transport: string }>(
    `select payload::json->'data'->>'agent_id' as id, payload::json->'data'->>'transport' as transport from webhook_deliveries where event_type = 'agent.connected'`,
  )
  expect(new Map(transports.map(({ id, transport }) => [id, transport]))).toEqual(
    new Map([
      [streaming.agent.id, 'stream'],
      [polling.agent.id, 'rest'],
    ]),
  )
  stream.close()
})
