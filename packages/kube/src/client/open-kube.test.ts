import { randomBytes } from 'node:crypto'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { beforeAll, expect, test } from 'vitest'
import { serviceAccountUser } from '../auth/kube-config.ts'
import { CONFIG_MAP, configMap, openClosing, openTestKube, widgetDefinition } from '../test-parts/open-test-kube.ts'
import type { Kube } from './kube.ts'
import { KubeError } from './kube-error.ts'

let kube: Kube
let at: Awaited<ReturnType<typeof cluster>>
beforeAll(async () => {
  at = await cluster()
  kube = await openTestKube(at)
})

async function collect<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = []
  for await (const item of items) all.push(item)
  return all
}

const reasonOf = (call: Promise<unknown>): Promise<string> =>
  call.then(
    () => 'none',
    (error: unknown) => (error instanceof KubeError ? error.reason : String(error)),
  )

test('a client creates, reads, patches, finds and deletes an object', async () => {
  const namespace = await at.namespace()
  const ref = { ...CONFIG_MAP, namespace, name: 'a' }
  await kube.create(configMap(namespace, 'a', { x: '1' }))
  expect(await reasonOf(kube.create(configMap(namespace, 'a')))).toBe('AlreadyExists')
  await kube.patch(ref, { type: 'merge', body: { data: { y: '2' } } })
  await kube.patch(ref, { type: 'json', body: [{ op: 'remove', path: '/data/x' }] })
  const live = await kube.get(ref)
  expect(live.data).toEqual({ y: '2' })
  await kube.replace({ ...live, data: { z: '3' } })
  expect(await reasonOf(kube.replace({ ...live, data: { z: '4' } }))).toBe('Conflict')
  expect((await kube.find(ref))?.data).toEqual({ z: '3' })
  expect(await kube.delete(ref)).toBeUndefined()
  expect(await kube.find(ref)).toBeUndefined()
  expect(await reasonOf(kube.delete(ref))).toBe('NotFound')
})

test('a delete with another uid or version leaves the object', async () => {
  const namespace = await at.namespace()
  const ref = { ...CONFIG_MAP, namespace, name: 'a' }
  const first = await kube.create(configMap(namespace, 'a'))
  await kube.delete(ref)
  const second = await kube.create(configMap(namespace, 'a'))
  expect(await reasonOf(kube.delete(ref, { uid: first.metadata.uid }))).toBe('Conflict')
  expect(await reasonOf(kube.delete(ref, { resourceVersion: first.metadata.resourceVersion }))).toBe('Conflict')
  expect((await kube.get(ref)).metadata.uid).toBe(second.metadata.uid)
  await kube.delete(ref, { uid: second.metadata.uid, resourceVersion: second.metadata.resourceVersion })
})

test('a list has pages and sets apiVersion and kind on every item', async () => {
  const namespace = await at.namespace()
  const names = Array.from({ length: 7 }, (_, index) => `c${index}`)
  for (const name of names) await kube.create(configMap(namespace, name, { name }, { odd: String(Number(name.slice(1)) % 2) }))
  const pages = await collect(kube.pages(CONFIG_MAP, { namespace, labelSelector: 'odd', pageSize: 3 }))
  expect(pages.map((page) => page.items.length)).toEqual([3, 3, 1])
  expect(pages.flatMap((page) => page.items).map((item) => item.metadata.name)).toEqual(names)
  const odd = await kube.list(CONFIG_MAP, { namespace, labelSelector: 'odd=1', metadataOnly: true })
  expect(odd.items.map((item) => [item.apiVersion, item.kind, item.metadata.name, item.data])).toEqual(
    ['c1', 'c3', 'c5'].map((name) => ['v1', 'ConfigMap', name, undefined]),
  )
  expect(Number(odd.resourceVersion)).toBeGreaterThan(0)
  const one = await kube.get({ ...CONFIG_MAP, namespace, name: 'c1' }, { metadataOnly: true })
  expect([one.kind, one.data]).toEqual(['ConfigMap', undefined])
})

test('a page above the size limit is requested again in halves', async () => {
  const namespace = await at.namespace()
  for (let index = 0; index < 6; index++)
    await kube.create(configMap(namespace, `big${index}`, { text: 'x'.repeat(50_000) }, { big: 'yes' }))
  const small = await openTestKube(at, { limits: { responseBytesMax: 150_000 } })
  // The catalogue of kinds is itself an answer: it must fit.
  const list = await small.list(CONFIG_MAP, { namespace, labelSelector: 'big' })
  expect(list.items).toHaveLength(6)
  expect(await reasonOf(openTestKube(at, { limits: { responseBytesMax: 200 } }).then((tiny) => tiny.request('GET', '/apis')))).toBe(
    'AnswerTooLarge',
  )
})

test('a watch yields events and ends when its loop exits', async () => {
  const namespace = await at.namespace()
  const { resourceVersion } = await kube.list(CONFIG_MAP, { namespace, labelSelector: 'w' })
  const seen: string[] = []
  const events = kube.watch(CONFIG_MAP, { namespace, labelSelector: 'w', resourceVersion })
  await kube.create(configMap(namespace, 'a', {}, { w: '1' }))
  await kube.patch({ ...CONFIG_MAP, namespace, name: 'a' }, { type: 'merge', body: { data: { x: '1' } } })
  await kube.delete({ ...CONFIG_MAP, namespace, name: 'a' })
  for await (const event of events) {
    if (event.type !== 'BOOKMARK') seen.push(`${event.type} ${event.object.kind} ${event.object.metadata.name}`)
    if (event.type === 'DELETED') break
  }
  expect(seen).toEqual(['ADDED ConfigMap a', 'MODIFIED ConfigMap a', 'DELETED ConfigMap a'])
})

test("an abort ends a watch and a call with the signal's reason", async () => {
  const reason = new Error('enough')
  const controller = new AbortController()
  const events = kube.watch(CONFIG_MAP, { signal: controller.signal, sendInitialEvents: true })
  await events.next()
  controller.abort(reason)
  await expect(collect(events)).rejects.toBe(reason)
  await expect(kube.get({ ...CONFIG_MAP, namespace: 'default', name: 'a' }, { signal: controller.signal })).rejects.toBe(reason)
})

test('a kind that is not served is UnknownKind', async () => {
  expect(await reasonOf(kube.list({ apiVersion: 'example.com/v1', kind: 'Nothing' }))).toBe('UnknownKind')
  expect(await reasonOf(collect(kube.watch({ apiVersion: 'v1', kind: 'Nothing' })))).toBe('UnknownKind')
})

test('a kind that is added later is found and keeps 64-bit integers', async () => {
  const namespace = await at.namespace()
  const group = `g${randomBytes(4).toString('hex')}.example.com`
  const widget = { apiVersion: `${group}/v1`, kind: 'Widget', metadata: { name: 'w', namespace }, spec: { size: 9007199254740993n } }
  expect(await reasonOf(kube.create(widget))).toBe('UnknownKind')
  await kube.create(widgetDefinition(group))
  for (;;) {
    const reason = await reasonOf(kube.apply(widget, { fieldManager: 'test' }))
    if (reason === 'none') break
    expect(['UnknownKind', 'NotFound', 'DiscoveryFailed']).toContain(reason)
  }
  const live = await kube.get({ apiVersion: `${group}/v1`, kind: 'Widget', namespace, name: 'w' })
  expect(live.spec?.['size']).toBe(9007199254740993n)
  expect((await kube.discovery.resolveGroupKind({ group, kind: 'Widget' })).plural).toBe('widgets')
  await kube.delete({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', name: `widgets.${group}` })
})

test('impersonation acts as another user and needs the right to do so', async () => {
  const namespace = await at.namespace()
  const as = serviceAccountUser(namespace, 'robot')
  const error = await kube.get({ ...CONFIG_MAP, namespace, name: 'a' }, { as }).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ reason: 'Forbidden', message: expect.stringContaining(`system:serviceaccount:${namespace}:robot`) })
  expect(await reasonOf(kube.with({ as }).list(CONFIG_MAP, { namespace }))).toBe('Forbidden')
  const plain = openClosing({ server: at.url, namespace: 'default', ca: { pem: at.caPem }, token: { kind: 'value', value: at.plainToken } })
  expect(await reasonOf(plain.list(CONFIG_MAP, { namespace, as: { user: 'admin', groups: ['system:masters'] } }))).toBe('Forbidden')
})

test('a wrong token is reported, and a throwing guard prevents the request', async () => {
  const wrong = openClosing({ server: at.url, namespace: 'default', ca: { pem: at.caPem }, token: { kind: 'value', value: 'nonsense' } })
  const error = await wrong.list(CONFIG_MAP).catch((thrown: unknown) => thrown)
  expect(error).toMatchObject({ reason: 'Unauthorized', message: expect.stringContaining('The token was refused') })
  const namespace = await at.namespace()
  const guarded = kube.with({
    guard: () => {
      throw new Error('lease lost')
    },
  })
  await expect(guarded.create(configMap(namespace, 'a'))).rejects.toThrow('lease lost')
  expect(await kube.find({ ...CONFIG_MAP, namespace, name: 'a' })).toBeUndefined()
})

test('parallel calls respect the limit, and urgent calls bypass it', async () => {
  const narrow = await openTestKube(at, { limits: { inFlight: 2 } })
  await narrow.discovery.all()
  const calls = Array.from({ length: 40 }, () => narrow.request('GET', '/version'))
  const urgent = narrow.request('GET', '/version', { urgent: true })
  await urgent
  expect((await Promise.all(calls)).every((answer) => answer.status === 200)).toBe(true)
})

test('a server-side apply reports creation and warnings', async () => {
  const namespace = await at.namespace()
  const first = await kube.apply(configMap(namespace, 'a', { x: '1' }), { fieldManager: 'test' })
  expect([first.created, (await kube.apply(configMap(namespace, 'a', { x: '1' }), { fieldManager: 'test' })).created]).toEqual([
    true,
    false,
  ])
  expect(await reasonOf(kube.apply(configMap(namespace, 'a', { x: '2' }), { fieldManager: 'other' }))).toBe('Conflict')
  await kube.apply(configMap(namespace, 'a', { x: '2' }), { fieldManager: 'other', force: true, dryRun: true })
  expect((await kube.get({ ...CONFIG_MAP, namespace, name: 'a' })).data).toEqual({ x: '1' })
  const strange = { ...configMap(namespace, 'b'), strange: 1 }
  expect(await reasonOf(kube.apply(strange, { fieldManager: 'test', fieldValidation: 'Strict' }))).toMatch(/BadRequest|Invalid/)
})
