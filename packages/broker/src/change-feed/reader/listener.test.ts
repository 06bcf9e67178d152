// long: starts more than one broker
import { unique } from '@brokkr/testing/broker.ts'
import { postgresWithoutNotify } from '@brokkr/testing/faults/postgres-without-notify.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__FEED__CANARY_SECONDS: '600' })
  return () => world.broker.kill()
})

test('[S30] the fallback poll delivers every change while notifications are lost', async () => {
  const deaf = await postgresWithoutNotify(world.db.url)
  const broker = await world.broker.sibling({
    BROKKR__FEED__LISTEN_URL: deaf.url,
    BROKKR__FEED__LISTENER_TEST_SECONDS: '0.3,0.3',
    BROKKR__FEED__POLL_MS: '300',
    BROKKR__FEED__CANARY_SECONDS: '600',
    BROKKR__LOG__LEVEL: 'info',
  })
  const metrics = async () => (await fetch(`${broker.url}/metrics`)).text()
  const rows = async (source: string) =>
    Number(new RegExp(`brokkr_feed_rows_total\\{source="${source}"\\} (\\d+)`).exec(await metrics())?.[1])
  const isUp = async () => /^brokkr_feed_listener_up 1$/m.test(await metrics())
  const label = unique('l')
  const stacks = [await world.stack([label]), await world.stack([label]), await world.stack([label])]
  const agent = await world.agent([label])
  const stream = await world.follow(agent, { at: broker })
  await stream.frame('snapshot_end')
  await stream.frame('bookmark')
  await waitFor('the listener to be found deaf', async () => !(await isUp()), {
    onTimeout: () => `${deaf.swallowed} swallowed\n${broker.logTail(10)}`,
  })
  const before = await rows('poll')
  // Each arrives. One that a new connection of the listener finds is not counted as found by the poll, so there may be more rounds.
  await waitFor('three changes by the poll', async () => {
    const objects = []
    for (const { id } of stacks) objects.push(await world.submit(id, 'by another process'))
    for (const { id } of objects) await stream.frame('put', (frame) => frame.object?.id === id)
    return (await rows('poll')) >= before + objects.length
  })
  expect(deaf.swallowed).toBeGreaterThan(0)
  expect(stream.frames.some((frame) => frame.type === 'bye')).toBe(false)
  // Tried again and again, told once.
  expect(broker.lines().filter((line) => line['msg'] === 'feed listener lost')).toHaveLength(1)

  deaf.hear()
  const heard = await rows('notify')
  await waitFor('the listener to heal', isUp, { limitMs: 60_000 })
  await waitFor('a change by notification', async () => {
    await world.submit(stacks[0]!.id, 'heard')
    return (await rows('notify')) > heard
  })
  stream.close()
  await broker.kill()
  await deaf.close()
}, 90_000)
