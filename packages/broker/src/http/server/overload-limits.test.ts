// Shedding with the shipped limits: by what the broker itself has to do, never by what else runs on the machine.
// long: runs beside eight busy processes
import { unique } from '@brokkr/testing/broker.ts'
import { withBusyProcesses } from '@brokkr/testing/faults/busy-processes.ts'
import { type FeedWorld, feedWorld } from '@brokkr/testing/feed-world.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'

let world: FeedWorld
beforeAll(async () => {
  world = await feedWorld({ BROKKR__LOG__LEVEL: 'info' })
  return () => world.broker.kill()
})

async function openReader(
  { url: base } = world.broker,
): Promise<{ agent: Awaited<ReturnType<FeedWorld['agent']>>; read: () => Promise<number> }> {
  const label = unique('l')
  const agent = await world.agent([label])
  await world.manyStacks(agent, { count: 20, label, bytes: 500 })
  const url = `${base}/api/v1/agents/${agent.agent.id}/target-state`
  const read = async (): Promise<number> => {
    const response = await fetch(url, { headers: { authorization: `Bearer ${agent.pak}` } })
    await response.arrayBuffer()
    return response.status
  }
  return { agent, read }
}

test('the broker refuses no call and no stream that it can serve beside eight busy processes', async () => {
  const { agent, read } = await openReader()
  const statuses = await withBusyProcesses(8, async () => {
    const endsMs = performance.now() + 8_000
    const seen: number[] = []
    const readOn = async (): Promise<void> => {
      while (performance.now() < endsMs) seen.push(await read())
    }
    await Promise.all(Array.from({ length: 16 }, readOn))
    const stream = await world.follow(agent)
    await stream.frame('snapshot_end')
    stream.close()
    return seen
  })
  expect(statuses.filter((status) => status !== 200)).toEqual([])
  expect(statuses.length).toBeGreaterThan(16)
})

test('the broker refuses calls while others wait too long for a connection of the pool', async () => {
  const broker = await world.broker.sibling({ BROKKR__LIMITS__POOL_WAIT_SECONDS: '1' })
  onTestFinished(() => broker.kill())
  const { read } = await openReader(broker)
  expect(await read()).toBe(200)
  const blocker = await world.db.connect()
  await blocker.query('begin')
  await blocker.query('lock table agent_targets in access exclusive mode')
  const shed = async (): Promise<boolean> => /^brokkr_http_shed_total/m.test(await (await fetch(`${broker.url}/metrics`)).text())
  const reading: Promise<number>[] = []
  // Each call holds its connection until the lock timeout, so the others wait longer and longer.
  const timer = setInterval(() => void reading.push(read()), 50)
  onTestFinished(() => clearInterval(timer))
  await waitFor('calls to be refused', shed)
  clearInterval(timer)
  await blocker.end()
  expect(await Promise.all(reading)).toContain(503)
  await waitFor('calls to be served again', async () => (await read()) === 200)
})
