// Lists of stacks that are not what they seem, through a whole agent on a real API server: what the API server was asked to
// delete is read from its own audit log.
import { type AuditedCluster, auditedCluster } from '@brokkr/testing/servers/audited-cluster.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, describe, expect, test } from 'vitest'
import { type LiveWorld, liveWorld } from '../test-parts/live-world.ts'
import { lying } from '../test-parts/wrong-snapshots.ts'

let at: AuditedCluster
beforeAll(async () => {
  at = await auditedCluster()
  return () => at.stop()
}, 180_000)

const streamsOf = ({ proxy }: LiveWorld) => proxy.requests.filter(({ path }) => path.endsWith('/stream'))
const withoutCursor = (world: LiveWorld) => streamsOf(world).filter(({ query }) => !query.has('cursor'))

test('[S12] [A11] a snapshot cut or with a wrong count or digest deletes nothing', async () => {
  // A complete list is asked for every half second, as if a day had passed.
  const world = await liveWorld(at, { BROKKR__AGENT__SNAPSHOT_INTERVAL: '0.5' })
  try {
    const stacks = await world.deploy(4)
    const isLost = (stackId: string) => stackId === stacks[0]!.id
    const all = stacks.map(({ name }) => name)
    const since = await at.mark()
    const lies = {
      cut: { isLost, cutsEnd: true },
      'wrong count': { isLost, end: (honest, original) => ({ ...honest, count: original.count }) },
      'wrong digest': { isLost, end: (honest, original) => ({ ...honest, digest: original.digest }) },
    } satisfies Record<string, Parameters<typeof lying>[0]>
    for (const [what, lie] of Object.entries(lies)) {
      world.proxy.break(lying(lie))
      const before = withoutCursor(world).length
      await waitFor(`further lists asked for after: ${what}`, () => withoutCursor(world).length >= before + 3, {
        limitMs: 60_000,
        onTimeout: world.explain,
      })
    }
    expect(await world.deletes(since)).toEqual([])
    expect(await world.names()).toEqual(expect.arrayContaining(all))
    // The same list, told so that it agrees with itself, is believed: the stack that it does not mention goes.
    world.proxy.break(lying({ isLost }))
    await waitFor('the lost stack to go', async () => !(await world.names()).includes(all[0]!), {
      limitMs: 60_000,
      onTimeout: world.explain,
    })
    expect((await world.deletes(since)).filter(({ resource }) => resource === 'configmaps').map(({ name }) => name)).toEqual([all[0]])
  } finally {
    await world.stop()
  }
}, 300_000)

describe('many stacks', () => {
  let world: LiveWorld
  let stacks: Awaited<ReturnType<LiveWorld['deploy']>>
  beforeAll(async () => {
    world = await liveWorld(at)
    stacks = await world.deploy(202)
    return () => world.stop()
  }, 400_000)

  test('[A13] a verified snapshot removes two of over a hundred stacks and only their objects', async () => {
    const gone = stacks.slice(0, 2)
    stacks = stacks.slice(2)
    const before = await Promise.all(stacks.map(({ name }) => world.read(name)))
    await world.running.kill()
    for (const { id } of gone) await world.tenant.client.stacksRemoveLabel({ params: { id, label: world.label } })
    const since = await at.mark()
    world.running = await world.start()
    await waitFor('the two to go', async () => (await world.names()).every((name) => !gone.some((stack) => stack.name === name)), {
      limitMs: 150_000,
      onTimeout: world.explain,
    })
    // A further change arrives, so the list has been worked through.
    await world.deploy(1, 'later')
    const deleted = (await world.deletes(since)).filter(({ namespace }) => namespace === world.namespace)
    expect(deleted.map(({ name }) => name).toSorted()).toEqual(gone.map(({ name }) => name).toSorted())
    const after = await Promise.all(stacks.map(({ name }) => world.read(name)))
    expect(after.map((found) => found?.metadata.uid)).toEqual(before.map((found) => found?.metadata.uid))
  }, 300_000)

  test('[S13] [A12] an empty snapshot removes none of two hundred stacks without approval', async () => {
    const since = await at.mark()
    world.proxy.break(lying({ isLost: () => true }))
    await world.running.kill()
    world.running = await world.start()
    for (const { id } of stacks) await world.reported(id, 'held')
    expect((await world.status(stacks[0]!.id))?.code).toBe('prune_guard')
    expect(await world.deletes(since)).toEqual([])
    expect(await world.names()).toEqual(expect.arrayContaining(stacks.map(({ name }) => name)))
    // It still runs: what somebody deletes comes back.
    const { uid } = (await world.read(stacks[7]!.name))!.metadata
    await at.api('DELETE', `/api/v1/namespaces/${world.namespace}/configmaps/${stacks[7]!.name}`)
    await waitFor('the healed object', async () => ((await world.read(stacks[7]!.name)) ?? { metadata: { uid } }).metadata.uid !== uid)
    await world.broker.admin.approvePrune({ params: { id: world.agent.agent.id }, body: { removals: 1_000 } })
    await waitFor('all to go', async () => (await world.names()).every((name) => !name.startsWith('map-')), {
      limitMs: 120_000,
      onTimeout: world.explain,
    })
    const deleted = (await world.deletes(since)).filter(({ namespace, name }) => namespace === world.namespace && name.startsWith('map-'))
    expect(deleted.length).toBe(200)
  }, 300_000)
})
