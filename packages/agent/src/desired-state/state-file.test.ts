import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { auditedCluster } from '@brokkr/testing/servers/audited-cluster.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { expect, test } from 'vitest'
import { liveWorld } from '../test-parts/live-world.ts'

test('[X31] a state file with one changed byte is ignored, and a snapshot is requested', async () => {
  const at = await auditedCluster()
  const world = await liveWorld(at)
  try {
    const env = { BROKKR__AGENT__STATE_DIR: join(world.running.folder, 'state') }
    await world.running.kill()
    world.running = await world.start(env)
    const stacks = await world.deploy(3)
    const file = join(env.BROKKR__AGENT__STATE_DIR, 'agent-state')
    // In good order, so that the file holds the last word.
    expect(await world.running.stop()).toBe(0)
    const bytes = await readFile(file)
    const text = bytes.toString('latin1')
    expect([text.includes('ConfigMap'), text.includes(stacks[0]!.id)]).toEqual([false, false])
    const middle = Math.floor(bytes.length / 2)
    bytes[middle] = bytes[middle]! ^ 1
    await writeFile(file, bytes)
    const [from, since] = [world.proxy.requests.length, await at.mark()]
    world.running = await world.start(env)
    const stream = () => world.proxy.requests.slice(from).find(({ path }) => path.endsWith('/stream'))
    await waitFor('a stream', stream, { limitMs: 60_000, onTimeout: () => world.explain() })
    expect(stream()?.query.has('cursor')).toBe(false)
    // A further change arrives, so what came before it was worked through.
    await world.deploy(1, 'later')
    expect((await world.writes(since)).filter(({ name }) => stacks.some((stack) => stack.name === name))).toEqual([])
    expect(await world.deletes(since)).toEqual([])
  } finally {
    await world.stop()
    await at.stop()
  }
}, 300_000)
