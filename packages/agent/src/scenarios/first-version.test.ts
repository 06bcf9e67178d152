import { type AuditedCluster, auditedCluster } from '@brokkr/testing/servers/audited-cluster.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import { firstVersion } from '../test-parts/first-version.ts'
import { liveWorld } from '../test-parts/live-world.ts'

let at: AuditedCluster
beforeAll(async () => {
  at = await auditedCluster()
  return () => at.stop()
}, 180_000)

test('with a v1 broker the agent polls, applies and deletes by marker, never by absence', async () => {
  const world = await liveWorld(at, { BROKKR__AGENT__POLLING_INTERVAL: '0.2', BROKKR__AGENT__TRANSPORT_RETRY_SECONDS: '1' })
  try {
    world.proxy.break(firstVersion)
    world.proxy.cutOpen()
    // Begun under such a broker, with nothing that a later one told it.
    await world.running.kill()
    world.running = await world.start()
    const stacks = [await world.stack(), await world.stack(), await world.stack()]
    const objects = await Promise.all(stacks.map(({ id }, n) => world.submit(id, world.configMap(`v1-${n}`, { v: '1' }))))
    const has = (n: number, value: string) =>
      waitFor(`v1-${n} = ${value}`, async () => (await world.read(`v1-${n}`))?.data?.['v'] === value, {
        limitMs: 90_000,
        onTimeout: () => world.explain(),
      })
    for (const n of [0, 1, 2]) await has(n, '1')
    await world.submit(stacks[0]!.id, world.configMap('v1-0', { v: '2' }))
    await has(0, '2')
    const since = await at.mark()
    // No longer wanted, and yet not told to go: the list is shorter, and that proves nothing.
    await world.tenant.client.stacksRemoveLabel({ params: { id: stacks[1]!.id, label: world.label } })
    await world.tenant.client.createDeploymentObject({
      params: { id: stacks[2]!.id },
      body: { yaml_content: '', is_deletion_marker: true },
    })
    await waitFor('the marked object to go', async () => (await world.read('v1-2')) === null, { limitMs: 90_000, onTimeout: world.explain })
    const polls = () => world.proxy.requests.filter(({ path }) => path.endsWith('/target-state')).length
    const before = polls()
    await waitFor('ten further polls', () => polls() >= before + 10, { limitMs: 60_000 })
    expect((await world.deletes(since)).filter(({ resource }) => resource === 'configmaps').map(({ name }) => name)).toEqual(['v1-2'])
    expect(await world.read('v1-1')).not.toBeNull()
    // What happened is told by the operation that such a broker has, one event at a time and in order.
    const told = async () =>
      (await world.broker.admin.listEvents({ params: { id: world.agent.agent.id } })).map(
        ({ event_type, deployment_object_id }) => `${event_type} ${objects.findIndex(({ id }) => id === deployment_object_id)}`,
      )
    await waitFor('the events', async () => (await told()).some((event) => event.startsWith('DELETED')), { limitMs: 60_000 })
    expect(await told()).toEqual(expect.arrayContaining(['APPLIED 0', 'APPLIED 1', 'APPLIED 2']))
    expect((await fetch(`${world.running.healthUrl}/readyz`)).status).toBe(200)
  } finally {
    await world.stop()
  }
}, 300_000)
