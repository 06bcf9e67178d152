// A rollback with hold against many followers: all of them get the old content, a push during the hold reaches none, the release sends it.
import { createHash } from 'node:crypto'
import { unique } from '@brokkr/testing/broker.ts'
import { configMapYaml, type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { size } from '@brokkr/testing/sizes.ts'
import type { StreamReader } from '@brokkr/testing/stream-reader.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  // The followers send no heartbeats.
  world = await feedWorld({ BROKKR__FEED__DEAD_SECONDS: '3600' })
  return () => world.broker.kill()
})

const followers = size('command.followers')
const checksumOf = (value: string) => createHash('sha256').update(configMapYaml(value)).digest('hex')
const putOf = (value: string) => (frame: { object: { yaml_checksum: string } | null }) => frame.object?.yaml_checksum === checksumOf(value)

test(`[S52] a rollback with hold reaches ${followers} followers, and a push during the hold reaches none until the release`, async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const params = { id: stack.id as never }
  const good = await world.submit(stack.id, 'good')
  const agents = await world.crowd(followers, label)
  const streams: StreamReader[] = []
  for (const agent of agents) streams.push(await world.follow(agent))
  const all = (value: string, rev: number) =>
    Promise.all(streams.map((stream) => stream.frame('put', (frame) => frame.rev === rev && putOf(value)(frame))))
  await all('good', 1)
  await world.submit(stack.id, 'bad')
  await all('bad', 2)

  const startedMs = performance.now()
  const { client } = world.tenant
  await client.rollbackStack({ params, body: { sequence_id: good.sequence_id, hold: true, reason: '5xx' } })
  await all('good', 3)
  process.stdout.write(`${followers} followers rolled back in ${Math.round(performance.now() - startedMs)} ms\n`)

  await world.submit(stack.id, 'pushed again')
  // The frame with the number of the push carries the held content: nothing else follows it.
  await all('good', 4)
  const late = agents[0]!
  const resumed = await world.follow(late, { cursor: (await streams[0]!.bookmarkAfter(streams[0]!.frames.at(-1)!)).cursor })
  const fresh = await world.follow(late)
  expect((await fresh.frame('put')).object).toMatchObject({ sequence_id: 3 })
  for (const stream of [...streams, resumed, fresh])
    expect(stream.frames.filter((frame) => frame.type === 'put' && putOf('pushed again')(frame))).toEqual([])

  await client.releaseStack({ params })
  await Promise.all(streams.slice(1).map((stream) => stream.frame('put', (frame) => frame.rev === 5 && putOf('pushed again')(frame))))
  for (const stream of [...streams, resumed, fresh]) stream.close()
})
