// Plans against a real API server: what they say, what they hide, and that nothing is written.
import { randomUUID } from 'node:crypto'
import type { NewPlanResult } from '@brokkr/contract/plans/plan.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { beforeAll, beforeEach, expect, test } from 'vitest'
import type { ReconcileDeps } from '../reconcile/deps.ts'
import { reconcileStack } from '../reconcile/reconcile-stack.ts'
import { refuse } from '../test-parts/api-recorder.ts'
import {
  configMap,
  deployment,
  newGroup,
  type ReconcileWorld,
  reconcileWorld,
  revision,
  widgetDefinition,
} from '../test-parts/reconcile-world.ts'
import { computePlan } from './compute-plan.ts'
import { WriteInPlan, withDryRunsOnly } from './dry-runs-only.ts'

let at: Awaited<ReturnType<typeof cluster>>
let world: ReconcileWorld
let namespace: string
let stackId: string
beforeAll(async () => {
  at = await cluster({ controllers: false })
  world = await reconcileWorld(at)
})
beforeEach(async () => {
  namespace = await at.namespace()
  stackId = randomUUID()
  world.stackIds.add(stackId)
})

const signal = () => AbortSignal.timeout(60_000)
const map = (name: string, data: Record<string, unknown> = {}, metadata: object = {}) => configMap(namespace, name, data, metadata)
const secret = (name: string, password: string) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name, namespace },
  stringData: { password },
})
const apply = async (...objects: object[]) => {
  const outcome = await reconcileStack(world.restarted(), revision(stackId, 1, objects), signal())
  expect(outcome).toMatchObject({ phase: 'applied' })
}
interface Asked {
  readonly settings?: Partial<ReconcileDeps['settings']>
  readonly isMarker?: boolean
}
/** Fails if the plan wrote anything: counted at the client and at what arrived at the API server. */
async function plan(objects: readonly object[], { settings = {}, isMarker = false }: Asked = {}): Promise<NewPlanResult> {
  const deps = world.restarted()
  const before = { writes: world.writes.length, arrived: arrivedWrites() }
  const yaml_content = objects.map((object) => JSON.stringify(object)).join('\n---\n')
  const pending = { id: randomUUID(), stack_id: stackId as never, yaml_content, is_deletion_marker: isMarker }
  const result = await computePlan({ ...deps, settings: { ...deps.settings, ...settings } }, pending, signal())
  expect({ writes: world.writes.length, arrived: arrivedWrites() }).toEqual(before)
  return result
}
const arrivedWrites = () => world.recorder.requests.filter(({ method, isDryRun }) => method !== 'GET' && !isDryRun).length
const changesOf = ({ changes }: NewPlanResult) => Object.fromEntries(changes.map(({ kind, name, change }) => [`${kind} ${name}`, change]))
const counts = (more: Partial<NewPlanResult['summary']>) => ({
  create: 0,
  update: 0,
  delete: 0,
  unchanged: 0,
  denied: 0,
  unchecked: 0,
  ...more,
})

test('[A56] a plan names what is created, changed and deleted with fields and managers, and writes nothing', async () => {
  await apply(
    map('same', { v: '1' }),
    map('changed', { v: '1', kept: 'x' }),
    ...Array.from({ length: 8 }, (_, n) => map(`more-${n}`)),
    map('dropped'),
  )
  const result = await plan([
    map('same', { v: '1' }),
    map('changed', { v: '2', kept: 'x' }),
    ...Array.from({ length: 8 }, (_, n) => map(`more-${n}`)),
    map('new', { v: '1' }),
  ])
  expect(result).toMatchObject({ state: 'answered', reason: null, summary: counts({ create: 1, update: 1, delete: 1, unchanged: 9 }) })
  expect(changesOf(result)).toEqual({ 'ConfigMap changed': 'update', 'ConfigMap new': 'create', 'ConfigMap dropped': 'delete' })
  const entry = (name: string) => result.changes.find((change) => change.name === name)
  expect(entry('changed')?.fields).toEqual([{ path: '/data/v', before: '1', after: '2', manager: 'brokkr-agent' }])
  expect([entry('new')?.fields, entry('dropped')?.guard]).toEqual([[], null])
})

test('[A56] drift shows as a change with its manager, and an equal manifest otherwise as unchanged', async () => {
  await apply(map('a', { v: '1' }), map('b', { v: '1' }))
  const ref = { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'a' }
  await world.kube.patch(ref, { type: 'merge', body: { data: { v: 'edited' } } }, { fieldManager: 'kubectl-edit' })
  const result = await plan([map('a', { v: '1' }), map('b', { v: '1' })])
  expect(result.summary).toEqual(counts({ update: 1, unchanged: 1 }))
  expect(result.changes[0]?.fields).toEqual([{ path: '/data/v', before: 'edited', after: '1', manager: 'kubectl-edit' }])
})

test('[A56] Secret values are masked, and equal ones are equal within one result only', async () => {
  await apply(secret('db', 'old-canary'), secret('twin', 'old-canary'))
  const wanted = [secret('db', 'new-canary'), secret('twin', 'new-canary')]
  const [first, second] = [await plan(wanted), await plan(wanted)]
  expect(JSON.stringify([first, second])).not.toMatch(/canary|b2xkLWNhbmFye|bmV3LWNhbmFye/)
  const values = (result: NewPlanResult) => result.changes.map(({ fields }) => fields.map(({ before, after }) => [before, after]))
  const [db, twin] = values(first)
  expect(db).toEqual([[expect.stringMatching(/^\*\*\*#/), expect.stringMatching(/^\*\*\*#/)]])
  expect(db).toEqual(twin)
  expect(db?.[0]?.[0]).not.toBe(db?.[0]?.[1])
  expect(values(second)[0]).not.toEqual(db)
})

test('[A56] local policy denies objects one by one, and a denied member is not planned as deleted', async () => {
  await apply(map('a', { v: '1' }), deployment(namespace, 'web', 0))
  const policy = { ...world.deps.settings.policy, deniedKinds: ['Deployment.apps'] }
  const result = await plan([map('a', { v: '2' }), deployment(namespace, 'web', 1)], { settings: { policy } })
  expect(result.summary).toEqual(counts({ update: 1, denied: 1 }))
  expect(result.changes.find(({ change }) => change === 'denied')?.message).toContain('denied_kinds')
  const withoutGrants = { ...world.deps.settings.tenants, grants: {} }
  const role = { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name: `r-${namespace}` }, rules: [] }
  const ungranted = await plan([map('a', { v: '1' }), deployment(namespace, 'web', 0), role], { settings: { tenants: withoutGrants } })
  expect(ungranted.summary).toEqual(counts({ unchanged: 2, denied: 1 }))
})

test('[A56] objects whose namespace or kind the plan creates are unchecked, and an unknown kind is denied', async () => {
  const group = newGroup()
  const made = `${namespace}-made`
  const widget = { apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w', namespace } }
  const unknown = { apiVersion: `${newGroup()}/v1`, kind: 'Gadget', metadata: { name: 'g', namespace } }
  const born = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: made } }
  const result = await plan([born, widgetDefinition(group), widget, configMap(made, 'inside'), unknown])
  expect(changesOf(result)).toMatchObject({
    [`Namespace ${made}`]: 'create',
    'Widget w': 'unchecked',
    'ConfigMap inside': 'unchecked',
    'Gadget g': 'denied',
  })
  expect(result.summary).toEqual(counts({ create: 2, unchecked: 2, denied: 1 }))
})

test('[A56] an object of another owner is planned like a new one, whether or not it exists', async () => {
  await at.api('POST', `/api/v1/namespaces/${namespace}/configmaps`, { body: map('foreign', { secret: 'of another' }) })
  const result = await plan([map('foreign', { v: '1' }), map('absent', { v: '1' })])
  const [foreign, absent] = result.changes
  expect({ ...foreign, name: '' }).toEqual({ ...absent, name: '' })
  expect(JSON.stringify(result)).not.toContain('of another')
})

test('[A56] deletions that the prune guard would hold carry its reason, and a deletion marker passes it', async () => {
  await apply(map('a'), map('b'))
  const result = await plan([map('c')])
  expect(result.changes.filter(({ change }) => change === 'delete').map(({ guard }) => guard)).toEqual([
    expect.stringContaining('all 2 objects'),
    expect.stringContaining('all 2 objects'),
  ])
  const marker = await plan([], { isMarker: true })
  expect([marker.summary, marker.changes.map(({ guard }) => guard)]).toEqual([counts({ delete: 2 }), [null, null]])
})

test('[A56] an object that the API server refuses is denied with a masked reason', async () => {
  const wrong = { ...secret('bad', 'canary-value'), immutable: 'canary-value' }
  const result = await plan([map('ok'), wrong])
  expect(result.summary).toEqual(counts({ create: 1, denied: 1 }))
  expect(JSON.stringify(result)).not.toContain('canary-value')
})

test('[A56] an object about which the API server says nothing is unchecked, not denied', async () => {
  world.recorder.intercept((request, response) => request.isDryRun && refuse(response, 410, 'Gone', 'the version is gone'))
  try {
    const result = await plan([map('a')])
    expect(result.summary).toEqual(counts({ unchecked: 1 }))
  } finally {
    world.recorder.intercept(null)
  }
})

test('[A56] a manifest that cannot be read, and a missing identity, are refused as a whole', async () => {
  expect(await plan([{ kind: 'ConfigMap' }])).toMatchObject({ state: 'refused', reason: expect.stringContaining('apiVersion is missing') })
  const tenants = { ...world.deps.settings.tenants, identitiesRequired: true }
  expect(await plan([map('a')], { settings: { tenants } })).toMatchObject({
    state: 'refused',
    reason: expect.stringContaining('no identity'),
  })
})

test('[A56] the client of a plan refuses every write', async () => {
  const kube = withDryRunsOnly(world.kube).with({})
  const object = map('x') as never
  const ref = { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'x' }
  const writes = [
    () => kube.apply(object, { fieldManager: 'm' }),
    () => kube.create(object),
    () => kube.replace(object),
    () => kube.patch(ref, { type: 'merge', body: {} }),
    () => kube.delete(ref),
    () => kube.request('POST', '/api/v1/namespaces'),
  ]
  for (const write of writes) await expect(write()).rejects.toBeInstanceOf(WriteInPlan)
  expect((await kube.apply(object, { fieldManager: 'm', dryRun: true })).created).toBe(true)
})
