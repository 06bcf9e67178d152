import { randomBytes } from 'node:crypto'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, test } from 'vitest'
import type { Kube } from '../client/kube.ts'
import type { KubeObject } from '../client/object.ts'
import { refOf } from '../client/object.ts'
import { NO_RETRY } from '../client/retry.ts'
import { CONFIG_MAP, configMap, deployment, openTestKube, widgetDefinition } from '../test-parts/open-test-kube.ts'
import type { ApplyItem } from './apply-object.ts'
import { applyObjects } from './apply-objects.ts'

const rules = { fieldManager: 'brokkr-agent', fieldValidation: 'Strict' } as const
let kube: Kube
let at: Awaited<ReturnType<typeof cluster>>
beforeAll(async () => {
  at = await cluster()
  kube = await openTestKube(at)
})

const mark = (object: KubeObject): ApplyItem => ({
  object: { ...object, metadata: { ...object.metadata, labels: { ...object.metadata.labels, 'test/set': 'one' } } },
})
const actions = (report: { outcomes: { action: string }[] }) => report.outcomes.map(({ action }) => action)

test('applyObjects applies 200 mixed objects in reverse order at once and then changes nothing', async () => {
  const id = randomBytes(4).toString('hex')
  const namespace = `mixed-${id}`
  const items = [
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    widgetDefinition(`g${id}.example.com`),
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { name: 'robot', namespace } },
    ...Array.from({ length: 90 }, (_, index) => configMap(namespace, `c${index}`, { index: String(index) })),
    ...Array.from({ length: 90 }, (_, index) => ({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: `s${index}`, namespace },
      stringData: { a: 'b' },
    })),
    ...Array.from({ length: 5 }, (_, index) => ({
      apiVersion: 'v1',
      kind: 'Service',
      metadata: { name: `v${index}`, namespace },
      spec: { ports: [{ port: 80 }], selector: { app: 'x' } },
    })),
    ...Array.from({ length: 5 }, (_, index) => deployment(namespace, `d${index}`, 0)),
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'p', namespace },
      spec: { containers: [{ name: 'main', image: 'example.invalid/app:1' }] },
    },
    ...Array.from({ length: 6 }, (_, index) => ({
      apiVersion: `g${id}.example.com/v1`,
      kind: 'Widget',
      metadata: { name: `w${index}`, namespace },
      spec: { size: index },
    })),
  ]
    .toReversed()
    .map(mark)
  expect(items).toHaveLength(200)
  const first = await applyObjects({ kube, clock }, items, rules)
  expect(first.outcomes.filter(({ failure }) => failure)).toEqual([])
  expect(new Set(actions(first))).toEqual(new Set(['created']))

  const quiet = items.filter(({ object }) => ['ConfigMap', 'Secret', 'Widget', 'ServiceAccount', 'Service'].includes(object.kind))
  const before = await versions(quiet)
  const second = await applyObjects({ kube, clock }, items, rules)
  expect(second.ok).toBe(true)
  expect(actions(second).filter((action) => action === 'created')).toEqual([])
  expect(await versions(quiet)).toEqual(before)
  await kube.delete({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', name: `widgets.g${id}.example.com` })
})

const versions = (items: readonly ApplyItem[]) =>
  Promise.all(items.map(async ({ object }) => (await kube.get(refOf(object), { metadataOnly: true })).metadata.resourceVersion))

test('applyObjects skips the write of an unchanged object after its dry run', async () => {
  const namespace = await at.namespace()
  const item = mark(configMap(namespace, 'a', { x: '1' }))
  await applyObjects({ kube, clock }, [item], rules)
  // Times of managers are whole seconds, so the answer is in doubt for the first few of them.
  await waitFor('a trial that is certain', async () => {
    const writes: unknown[] = []
    const counting = {
      ...kube,
      apply: (...args: Parameters<Kube['apply']>) => (args[1].dryRun ? 0 : writes.push(args[0].metadata.name), kube.apply(...args)),
    }
    expect(actions(await applyObjects({ kube: counting, clock }, [item], rules))).toEqual(['unchanged'])
    return writes.length === 0
  })
  const changed = mark(configMap(namespace, 'a', { x: '2' }))
  expect(actions(await applyObjects({ kube, clock }, [changed], rules))).toEqual(['configured'])
  expect((await kube.get({ ...CONFIG_MAP, namespace, name: 'a' })).data).toEqual({ x: '2' })
})

test('applyObjects reverts an edit of another manager with force', async () => {
  const namespace = await at.namespace()
  const item = { ...mark(configMap(namespace, 'a', { x: '1' })), force: true }
  await applyObjects({ kube, clock }, [item], rules)
  await kube.patch(
    { ...CONFIG_MAP, namespace, name: 'a' },
    { type: 'merge', body: { data: { x: 'edited' } } },
    { fieldManager: 'kubectl-edit' },
  )
  expect(actions(await applyObjects({ kube, clock }, [item], rules))).toEqual(['configured'])
  expect((await kube.get({ ...CONFIG_MAP, namespace, name: 'a' })).data).toEqual({ x: '1' })
})

test('applyObjects writes none of 20 objects if the dry run of one fails', async () => {
  const namespace = await at.namespace()
  const items = Array.from({ length: 20 }, (_, index) => mark(configMap(namespace, `c${index}`)))
  items[7] = mark({ ...configMap(namespace, 'c7'), data: { 'not a key': 'x' } })
  items[8] = mark(configMap(namespace, 'Not_A_Name'))
  const report = await applyObjects({ kube, clock }, items, rules)
  expect(report).toMatchObject({ ok: false, refused: true })
  expect(report.outcomes.flatMap(({ ref, failure }) => (failure ? [[ref.name, failure.code]] : []))).toEqual([
    ['c7', 'invalid'],
    ['Not_A_Name', 'invalid'],
  ])
  expect(actions(report).filter((action) => action === 'skipped')).toHaveLength(18)
  expect((await kube.list(CONFIG_MAP, { namespace, labelSelector: 'test/set' })).items).toEqual([])
})

test('applyObjects keeps earlier writes and skips the rest when a later phase fails', async () => {
  const namespace = `late-${randomBytes(4).toString('hex')}`
  const bad = deployment(namespace, 'web')
  const items = [
    {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'Ingress',
      metadata: { name: 'in', namespace },
      spec: { defaultBackend: { service: { name: 'x', port: { number: 80 } } } },
    },
    { ...bad, spec: { ...bad.spec, selector: { matchLabels: { app: 'other' } } } },
    configMap(namespace, 'a'),
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
  ].map(mark)
  // The namespace is new, so the trial of what lives in it comes right before its phase.
  const report = await applyObjects({ kube, clock }, items, rules)
  expect(actions(report)).toEqual(['skipped', 'failed', 'created', 'created'])
  expect(report).toMatchObject({ ok: false, refused: false })
})

test('applyObjects leaves a foreign object of the same name unchanged', async () => {
  const namespace = await at.namespace()
  const before = await kube.create(configMap(namespace, 'a', { theirs: '1' }), { fieldManager: 'them' })
  const item: ApplyItem = { ...mark(configMap(namespace, 'a', { ours: '1' })), expect: 'absent' }
  for (const dryRun of [true, false]) {
    const report = await applyObjects({ kube, clock }, [item], { ...rules, dryRun })
    expect(report.outcomes[0]?.failure?.code).toBe('foreign_object')
    const after = await kube.get({ ...CONFIG_MAP, namespace, name: 'a' })
    expect({ ...after, metadata: { ...after.metadata, resourceVersion: '' } }).toEqual({
      ...before,
      metadata: { ...before.metadata, resourceVersion: '' },
    })
  }
})

test('applyObjects recognizes its own object after a lost response', async () => {
  const namespace = await at.namespace()
  const item: ApplyItem = { ...mark(configMap(namespace, 'a', { x: '1' })), expect: 'absent' }
  await kube.apply(item.object, rules)
  const [written] = actions(await applyObjects({ kube, clock }, [item], { ...rules, dryRun: false }))
  expect(['configured', 'unchanged']).toContain(written)
  // A trial meets what was there before it, whoever made it: the caller must look.
  const tried = await applyObjects({ kube, clock }, [item], rules)
  expect(tried.outcomes[0]?.failure?.code).toBe('foreign_object')
})

test('applyObjects fails on an immutable field and replaces the object if allowed', async () => {
  const namespace = await at.namespace()
  const job = (image: string): ApplyItem =>
    mark({
      apiVersion: 'batch/v1',
      kind: 'Job',
      metadata: { name: 'j', namespace },
      spec: { suspend: true, template: { spec: { restartPolicy: 'Never', containers: [{ name: 'm', image }] } } },
    })
  await applyObjects({ kube, clock }, [job('example.invalid/a')], rules)
  const uid = (await kube.get(refOf(job('x').object))).metadata.uid
  const refused = await applyObjects({ kube, clock }, [job('example.invalid/b')], rules)
  expect(refused.outcomes[0]?.failure?.code).toBe('immutable_field')
  for (const dryRun of [true, false]) {
    const replaced = await applyObjects({ kube, clock }, [{ ...job(`example.invalid/${String(dryRun)}`), replace: true }], {
      ...rules,
      dryRun,
    })
    expect(replaced.outcomes[0]).toMatchObject({ action: 'created', replaced: true })
    expect(replaced.outcomes[0]?.uid).not.toBe(uid)
  }
})

test('applyObjects takes over fields of an older manager', async () => {
  const namespace = await at.namespace()
  await kube.apply(configMap(namespace, 'a', { kept: '1', dropped: '1' }), { fieldManager: 'brokkr-controller' })
  await kube.create(configMap(namespace, 'b', { kept: '1', dropped: '1' }), { fieldManager: 'brokkr-controller' })
  const items = ['a', 'b'].map((name) => ({ ...mark(configMap(namespace, name, { kept: '1' })), force: true }))
  expect(actions(await applyObjects({ kube, clock }, items, { ...rules, migrateFrom: ['brokkr-controller'] }))).toEqual([
    'configured',
    'configured',
  ])
  for (const name of ['a', 'b']) expect((await kube.get({ ...CONFIG_MAP, namespace, name })).data).toEqual({ kept: '1' })
})

test('applyObjects reports a missing kind and a missing namespace', async () => {
  const missing = mark(configMap('no-such-namespace', 'a'))
  const unknown = mark({ apiVersion: 'example.com/v1', kind: 'Nothing', metadata: { name: 'a', namespace: 'default' } })
  const report = await applyObjects({ kube, clock }, [missing, unknown], { ...rules, retry: NO_RETRY })
  expect(report.outcomes.map(({ failure }) => failure?.code)).toEqual(['missing_namespace', 'missing_kind'])
})

test('applyObjects fails on a CRD that is never established', async () => {
  const id = randomBytes(4).toString('hex')
  const crd = mark(widgetDefinition(`g${id}.example.com`))
  // A second definition that claims the same names is accepted and never established.
  await applyObjects({ kube, clock }, [crd], rules)
  const twin = widgetDefinition(`g${id}.example.com`)
  const clash = mark({
    ...twin,
    metadata: { name: `gadgets.g${id}.example.com` },
    spec: { ...twin.spec, names: { kind: 'Widget', plural: 'gadgets', singular: 'widget', listKind: 'WidgetList' } },
  })
  const report = await applyObjects({ kube, clock }, [clash], { ...rules, crdWaitMs: 300 })
  expect(report.outcomes[0]?.failure?.code).toBe('crd')
  const reason = new Error('a newer sequence came')
  const controller = new AbortController()
  const waiting = applyObjects({ kube, clock }, [clash], { ...rules, signal: controller.signal, onOutcome: () => controller.abort(reason) })
  await expect(waiting).rejects.toBe(reason)
  for (const name of [crd, clash].map(({ object }) => object.metadata.name))
    await kube.delete({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', name })
})

test('applyObjects reports a field of the wrong type as invalid without retries', async () => {
  const namespace = await at.namespace('mistyped')
  const wrong = { ...configMap(namespace, 'wrong', {}), data: { a: 1 } } as unknown as KubeObject
  const misformed = {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { name: 'misformed', namespace },
    data: { a: 'not base64!' },
  } as KubeObject
  const items = [{ object: wrong }, { object: misformed }, { object: configMap(namespace, 'right', {}) }]
  const report = await applyObjects({ kube, clock }, items, rules)
  expect(report.refused).toBe(true)
  for (const name of ['wrong', 'misformed'])
    expect(report.outcomes.find(({ ref }) => ref.name === name)?.failure).toMatchObject({ code: 'invalid', retryable: false })
})
