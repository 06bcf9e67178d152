import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { type AgentWorld, manifest, startAgentWorld } from '../test-parts/agent-world.ts'
import { refuse } from '../test-parts/api-recorder.ts'
import { put } from '../test-parts/frames.ts'
import { CONFIG_MAP, configMap, newGroup, type ReconcileWorld, reconcileWorld, widgetDefinition } from '../test-parts/reconcile-world.ts'

let at: Awaited<ReturnType<typeof cluster>>
let world: ReconcileWorld
let namespace: string
let agent: AgentWorld
beforeAll(async () => {
  at = await cluster({ controllers: false })
})
beforeEach(async () => {
  world = await reconcileWorld(at, { crdWaitMs: 600_000 })
  namespace = await at.namespace()
  agent = await startAgentWorld(world)
})
afterEach(() => agent.stop())

const map = (name: string, data: Record<string, unknown> = {}) => configMap(namespace, name, data)
const find = (name: string) => world.kube.find({ ...CONFIG_MAP, namespace, name })
const told = () => agent.events().map(({ event_type, sequence_id }) => `${event_type} ${sequence_id}`)

test('[A29] a newer deployment object aborts the wait for a CRD', async () => {
  const group = newGroup()
  await world.kube.create(widgetDefinition(group))
  // The same kind under another plural: the names are taken, so this definition never becomes Established.
  const hanging = widgetDefinition(group, { plural: 'gadgets' })
  agent.list(put(1, 1, manifest(map('a', { x: '1' }))))
  await agent.reported(1, 'applied', 1)
  agent.live(put(1, 3, manifest(map('a', { x: '3' }), hanging)))
  await waitFor('the definition to be waited for', async () => {
    const definition = await world.kube.find({ apiVersion: hanging.apiVersion, kind: hanging.kind, name: hanging.metadata.name })
    return definition !== undefined && world.recorder.requests.filter(({ path }) => path.endsWith(hanging.metadata.name)).length > 4
  })
  // Ten minutes is what the wait for a definition may take here: a limit of one shows that it was not waited out.
  const askedMs = performance.now()
  agent.live(put(1, 4, manifest(map('a', { x: '4' }), map('b'))))
  await waitFor('sequence 4', async () => (await find('a'))?.data?.['x'] === '4')
  expect(performance.now() - askedMs).toBeLessThan(60_000)
  // What sequence 3 brought is dropped by 4; a definition goes only with approval.
  await agent.reported(1, 'held', 4)
  expect(told()).toEqual(['APPLIED 1', 'UPDATED 4'])
})

test('a newer deployment object ends the backoff of a request', async () => {
  world.recorder.intercept(({ method, path, isDryRun }, response) =>
    method === 'PATCH' && path.endsWith('/configmaps/stuck') && !isDryRun
      ? refuse(response, 503, 'ServiceUnavailable', 'away', { 'retry-after': '60' })
      : false,
  )
  agent.list(put(1, 1, manifest(map('stuck'), map('a'))))
  await waitFor('the back-off', () =>
    world.recorder.requests.some(({ path, status }) => path.endsWith('/configmaps/stuck') && status === 503),
  )
  const askedMs = performance.now()
  agent.live(put(1, 2, manifest(map('a'), map('b'))))
  await agent.reported(1, 'applied', 2)
  expect(performance.now() - askedMs).toBeLessThan(50_000)
  expect(told()).toEqual(['APPLIED 2'])
})

test('[A30] a prefetched dry run ends before the next sequence starts', async () => {
  agent.list(put(1, 1, manifest(map('a', { x: '1' }))))
  await agent.reported(1, 'applied', 1)
  const released = Promise.withResolvers<boolean>()
  // Both are under way when sequence 3 comes: the read is given up at once, the dry run nobody can call back.
  world.recorder.intercept(({ method, path, body }) => {
    const isAhead = method === 'PATCH' && path.endsWith('/configmaps/a') && body.includes('"x":"2"')
    return isAhead || (method === 'GET' && path.includes('/secrets/brokkr-stack-')) ? released.promise : false
  })
  const sent = (x: string) => world.recorder.requests.filter(({ method, body }) => method === 'PATCH' && body.includes(`"x":"${x}"`))
  agent.live(put(1, 2, manifest(map('a', { x: '2' }))))
  await waitFor('the dry run ahead', () => sent('2').length === 1)
  world.recorder.intercept(null)
  agent.live(put(1, 3, manifest(map('a', { x: '3' }))))
  setTimeout(() => released.resolve(false), 500)
  await agent.reported(1, 'applied', 3)
  const [ahead] = sent('2')
  expect(ahead?.isDryRun).toBe(true)
  for (const { atMs } of sent('3')) expect(atMs).toBeGreaterThanOrEqual(ahead?.doneMs ?? Number.POSITIVE_INFINITY)
})

test('[A30] the last of fifty sequences wins, in order, with one attempt at a time', async () => {
  const names = ['a', 'b', 'c']
  agent.list(put(1, 1, manifest(...names.map((name) => map(name, { x: '1' })))))
  for (let rev = 2; rev <= 50; rev++) {
    agent.live(put(1, rev, manifest(...names.map((name) => map(name, { x: String(rev) })))))
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  await agent.reported(1, 'applied', 50)
  for (const name of names) expect((await find(name))?.data).toEqual({ x: '50' })
  for (const name of names) {
    const written = world.recorder.requests
      .filter(
        ({ method, path, isDryRun, status }) =>
          method === 'PATCH' && path.endsWith(`/configmaps/${name}`) && !isDryRun && status !== undefined,
      )
      .map(({ body }) => Number((JSON.parse(body) as { data: { x: string } }).data.x))
    expect(written).toEqual(written.toSorted((one, other) => one - other))
  }
  expect(agent.events('FAILED')).toEqual([])
  // Requests that were under way at the same moment all belong to one sequence.
  const about = world.recorder.requests.filter(({ method, path }) => method === 'PATCH' && /\/configmaps\/[abc]$/.test(path))
  const values = about.map(({ body, atMs, doneMs }) => ({ x: (JSON.parse(body) as { data: { x: string } }).data.x, atMs, doneMs }))
  const overlaps = values.flatMap((one) =>
    values.filter((other) => other.x !== one.x && other.atMs > one.atMs && other.atMs < (one.doneMs ?? Number.POSITIVE_INFINITY)),
  )
  expect(overlaps).toEqual([])
  expect(values.map(({ x }) => x)).toContain('50')
})
