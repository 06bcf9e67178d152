// What this process has just committed is read along with the rows that tell of it: no statement of its own, and never an older state.
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { unique } from '@brokkr/testing/broker.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { beforeAll, expect, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__LOG__LEVEL: 'info' })
  return () => world.broker.kill()
})

/** How often the pool was asked for the state or the content of stacks. */
async function loads(): Promise<number> {
  const text = await (await fetch(`${world.broker.url}/metrics`)).text()
  const counts = text.matchAll(
    /^brokkr_db_query_duration_seconds_count\{name="(?:desired_state\.readDesiredStates|target_state\.listSealed)"\} (\d+)/gm,
  )
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0)
}

test('consecutive submissions reach their agent with the state read by the poll', async () => {
  const label = unique('l')
  const stack = await world.stack([label])
  const stream = await world.follow(await world.agent([label]))
  await stream.frame('bookmark')
  // The first of them prepares the statement.
  for (let n = 0; n < 2; n += 1) await stream.frame('put', ofObject((await world.submit(stack.id, `${n}`)).id))
  const before = await loads()
  for (let n = 2; n < 12; n += 1) {
    const { id } = await world.submit(stack.id, `${n}`)
    const { object } = await stream.frame('put', ofObject(id))
    expect(object).toMatchObject({ sequence_id: n + 1, yaml_content: expect.stringContaining(`"${n}"`) })
  }
  expect(await loads()).toBe(before)
  stream.close()
})

test('concurrent submissions of several processes end with the latest state at every agent', async () => {
  const label = unique('l')
  const stacks = await mapBounded(Array.from({ length: 6 }), 1, () => world.stack([label]))
  const agents = await mapBounded(Array.from({ length: 3 }), 1, () => world.agent([label]))
  const streams = await mapBounded(agents, 3, (agent) => world.follow(agent))
  for (const stream of streams) await stream.frame('bookmark')
  const last = await mapBounded(stacks, 6, async ({ id }, lane) => {
    for (let n = 0; n < 8; n += 1) {
      if ((n + lane) % 3 === 0) await (await world.openSubmission(id, `by hand ${n}`)).commit()
      else await world.submit(id, `${n}`)
    }
    return world.submit(id, 'last')
  })
  for (const stream of streams) {
    for (const { id } of last) await stream.frame('put', ofObject(id))
    for (const { id } of stacks) {
      const revs = stream.frames.flatMap((frame) => (frame.type === 'put' && frame.stack_id === id ? [frame.rev] : []))
      expect(revs).toEqual(revs.toSorted((a, b) => a - b))
      expect(revs.at(-1)).toBe(9)
    }
    stream.close()
  }
})

const ofObject = (id: string) => (frame: { object: { id: string } | null }) => frame.object?.id === id
