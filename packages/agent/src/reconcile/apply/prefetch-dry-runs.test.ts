import { randomUUID } from 'node:crypto'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { refuse } from '../../test-parts/api-recorder.ts'
import { CONFIG_MAP, configMap, described, type ReconcileWorld, reconcileWorld, revision } from '../../test-parts/reconcile-world.ts'
import type { Outcome } from '../outcome.ts'
import { reconcileStack } from '../reconcile-stack.ts'

let world: ReconcileWorld
let namespace: string
let stackId: string
const signal = new AbortController().signal
beforeAll(async () => {
  world = await reconcileWorld(await cluster({ controllers: false }))
})
beforeEach(async () => {
  namespace = await world.at.namespace()
  stackId = randomUUID()
  world.stackIds.add(stackId)
})
afterEach(() => world.recorder.intercept(null))

const map = (name: string, v: string, metadata: object = {}) => configMap(namespace, name, { v }, metadata)
const apply = (rev: number, objects: readonly object[]): Promise<Outcome> =>
  reconcileStack(world.deps, revision(stackId, rev, objects), signal)
/** From here on only what comes is counted. */
async function settled(objects: readonly object[]): Promise<void> {
  expect(await apply(1, objects)).toMatchObject({ phase: 'applied' })
  world.writes.length = 0
  world.recorder.clear()
}
const dryRuns = () => world.recorder.requests.filter(({ isDryRun }) => isDryRun).map(({ path }) => path.split('/').at(-1))
const isParent = (path: string) => path.endsWith(`/secrets/brokkr-stack-${stackId}`)
const valueOf = async (name: string) => (await world.kube.find({ ...CONFIG_MAP, namespace, name }))?.data?.['v']

test('dry runs of changed members start before the parent is read', async () => {
  await settled([map('a', '1'), map('b', '1')])
  world.recorder.intercept(async ({ method, path }) => {
    // The parent is handed over only when the trial has arrived.
    if (method === 'GET' && isParent(path)) await waitFor('the trial', () => dryRuns().length > 0)
    return false
  })
  expect(await apply(2, [map('a', '2'), map('b', '1')])).toMatchObject({ phase: 'applied' })
  expect(dryRuns()).toEqual(['a'])
  expect(described(world.writes)).toEqual(['apply ConfigMap a'])
  expect([await valueOf('a'), await valueOf('b')]).toEqual(['2', '1'])
  const { requests } = world.recorder
  const read = requests.find(({ method, path }) => method === 'GET' && isParent(path))
  const written = requests.find(({ method, isDryRun }) => method === 'PATCH' && !isDryRun)
  expect(written?.atMs).toBeGreaterThan(read?.doneMs ?? Number.POSITIVE_INFINITY)
})

test('a failed prefetched dry run is repeated in the attempt', async () => {
  await settled([map('a', '1')])
  let refusals = 0
  world.recorder.intercept(({ isDryRun }, response) =>
    isDryRun && refusals++ === 0 ? refuse(response, 503, 'ServiceUnavailable', 'not now') : false,
  )
  expect(await apply(2, [map('a', '2')])).toMatchObject({ phase: 'applied' })
  expect(dryRuns()).toEqual(['a', 'a'])
  expect(await valueOf('a')).toBe('2')
})

test('a foreign object in place of a member is not changed despite a prefetched dry run', async () => {
  await settled([map('a', '1'), map('b', '1')])
  await world.kube.delete({ ...CONFIG_MAP, namespace, name: 'a' })
  await world.kube.create(map('a', 'theirs'))
  expect(await apply(2, [map('a', '2'), map('b', '2')])).toMatchObject({ problem: { code: 'foreign_object' } })
  expect([await valueOf('a'), await valueOf('b')]).toEqual(['theirs', '1'])
})

test('a prefetched dry run is not used for a write that releases fields first', async () => {
  await settled([map('a', '1')])
  const ignoring = map('a', '2', { annotations: { 'brokkr.io/ignore-fields': '/data/v' } })
  expect(await apply(2, [ignoring])).toMatchObject({ phase: 'applied' })
  // Let go, not taken away: it is others' to set from now on.
  expect(await valueOf('a')).toBe('1')
  expect(dryRuns()).toEqual(['a', 'a'])
})

test('a stack too large for the cache runs its dry runs after the parent is read', async () => {
  const many = (v: string) => Array.from({ length: 9 }, (_, n) => map(`m${n}`, v))
  await settled(many('1'))
  world.recorder.intercept(({ isDryRun, path }) => {
    if (isDryRun && path.includes(namespace)) expect(world.recorder.requests.find((each) => isParent(each.path))?.doneMs).toBeDefined()
    return false
  })
  expect(await apply(2, many('2'))).toMatchObject({ phase: 'applied' })
  expect(dryRuns()).toHaveLength(9)
})
