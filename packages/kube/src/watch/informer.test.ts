import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { mapBounded } from '@brokkr/runtime/concurrency.ts'
import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { type FaultProxy, startFaultProxy } from '@brokkr/testing/faults/fault-proxy.ts'
import { cluster, privateCluster } from '@brokkr/testing/servers/kube.ts'
import { size } from '@brokkr/testing/sizes.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { KubeConfig } from '../auth/kube-config.ts'
import type { Kube } from '../client/kube.ts'
import { type KubeObject, nameKey } from '../client/object.ts'
import { meddler } from '../test-parts/meddler.ts'
import { CONFIG_MAP, configMap, openClosing, openTestKube, widgetDefinition } from '../test-parts/open-test-kube.ts'
import { type Informer, startInformer } from './informer.ts'
import type { Change } from './informer-cache.ts'

const versionOf = (object: KubeObject): string => `${object.metadata.uid} ${object.metadata.resourceVersion}`
const backoff = { baseMs: 20, maxMs: 200, jitter: 'equal' } as const

/** A handler that knows only what it was told, and notices anything told twice. */
function listener(informer: Informer<string>) {
  const believed = new Map<string, string>()
  const wrong: Change<string>[] = []
  informer.onChange((change) => {
    if (believed.has(change.key) === (change.type === 'added')) wrong.push(change)
    if (change.type === 'deleted') believed.delete(change.key)
    else believed.set(change.key, change.value)
  })
  return { believed, wrong }
}

async function truth(kube: Kube, namespace: string): Promise<Map<string, string>> {
  const { items } = await kube.list(CONFIG_MAP, { namespace, metadataOnly: true })
  return new Map(items.map((object) => [nameKey(object.metadata), versionOf(object)]))
}

async function equalsTruth(kube: Kube, namespace: string, informer: Informer<string>): Promise<void> {
  await waitFor('the informer to hold what is there', async () => {
    const there = await truth(kube, namespace)
    return informer.size === there.size && [...there].every(([key, value]) => informer.get(key) === value)
  })
}

describe('an informer over many ConfigMaps behind a fault proxy', () => {
  const namespace = 'many'
  const count = size('kube.objects') * 2
  let plane: Awaited<ReturnType<typeof privateCluster>>
  let direct: Kube
  let proxy: FaultProxy
  let informer: Informer<string>
  let heard: ReturnType<typeof listener>
  let tokenFile: string

  const proxied = (): KubeConfig => ({
    server: `https://127.0.0.1:${proxy.port}`,
    namespace: 'default',
    ca: { pem: plane.caPem },
    token: { kind: 'file', path: tokenFile },
  })
  const disturb = (round: string) =>
    Promise.all([
      direct.patch({ ...CONFIG_MAP, namespace, name: 'c1' }, { type: 'merge', body: { data: { round } } }),
      direct.create(configMap(namespace, `new-${round}`)),
      direct.delete({ ...CONFIG_MAP, namespace, name: `c${Number.parseInt(round, 36) % count}` }).catch(() => undefined),
    ])
  /** Waits until it holds what is there; gives what its handler was told wrongly, or not at all. */
  const settled = async (of: Informer<string> = informer, told: ReturnType<typeof listener> = heard) => {
    await equalsTruth(direct, namespace, of)
    const there = await truth(direct, namespace)
    const missed = [...there].filter(([key, value]) => told.believed.get(key) !== value)
    return { wrong: told.wrong, missed, extra: told.believed.size - there.size }
  }
  const right = { wrong: [], missed: [], extra: 0 }

  beforeAll(async () => {
    plane = await privateCluster({ liftLimits: true })
    tokenFile = join(await mkdtemp(join(tmpdir(), 'kube-token-')), 'token')
    await writeFile(tokenFile, plane.token)
    direct = await openTestKube(plane)
    proxy = await startFaultProxy({ target: { host: '127.0.0.1', port: Number(new URL(plane.url).port) } })
    await direct.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    await mapBounded(
      Array.from({ length: count }, (_, index) => `c${index}`),
      32,
      (name) => direct.create(configMap(namespace, name, { name })),
    )
    informer = startInformer(
      { kube: openClosing(proxied()), clock, log },
      { kind: CONFIG_MAP, namespace, project: versionOf, backoff, idleMs: 1_000 },
    )
    heard = listener(informer)
    await informer.whenSynced()
  }, 240_000)

  afterAll(async () => {
    await informer.stop()
    await proxy.close()
    await plane.stop()
    await rm(join(tokenFile, '..'), { recursive: true })
  })

  test('has all objects after its first list', async () => {
    expect(informer.size).toBeGreaterThanOrEqual(count)
    expect(await settled()).toEqual(right)
    expect(informer.contactAgeMs).toBeLessThan(60_000)
  })

  test('is correct after the API server was killed and restarted', async () => {
    await disturb('a1')
    await plane.kill('kube-apiserver')
    await waitFor('the informer to notice', () => informer.lastError)
    expect(informer.size).toBeGreaterThanOrEqual(count - 5)
    await plane.start('kube-apiserver')
    await disturb('a2')
    expect(await settled()).toEqual(right)
  }, 120_000)

  test('is correct after its position expired', async () => {
    const lists = informer.lists
    proxy.cut()
    await disturb('b1')
    // A restarted server remembers nothing from before its start: resuming there is answered with 410.
    await plane.kill('kube-apiserver')
    await plane.start('kube-apiserver')
    await disturb('b2')
    expect(informer.get(`${namespace}/new-b1`)).toBeUndefined()
    proxy.heal()
    expect(await settled()).toEqual(right)
    expect(informer.lists).toBe(lists + 1)
  }, 120_000)

  test('is correct after connections closed within events', async () => {
    const before = proxy.connections.total
    for (let round = 0; round < 6; round++) {
      await waitFor('a watch', () => informer.lastError === undefined)
      proxy.resetAfter(100 + 217 * round, 'toClient')
      await disturb(`d${round}`)
      await waitFor('the cut', () => informer.lastError)
      proxy.heal()
    }
    expect(await settled()).toEqual(right)
    expect(proxy.connections.total - before).toBeGreaterThanOrEqual(3)
  }, 120_000)

  test('is correct after a half-open connection', async () => {
    await disturb('f1')
    proxy.halfOpen()
    const before = proxy.connections.total
    await disturb('f2')
    await waitFor('the informer to try another connection', () => proxy.connections.total > before)
    expect(informer.contactAgeMs).toBeGreaterThan(0)
    proxy.heal()
    await disturb('f3')
    expect(await settled()).toEqual(right)
  }, 120_000)

  test('continues with a new token after a refused one', async () => {
    let laterMs = 0
    const client = openClosing(proxied(), { clock: { ...clock, monotonicMs: () => clock.monotonicMs() + laterMs } })
    const robot = startInformer({ kube: client, clock, log }, { kind: CONFIG_MAP, namespace, project: versionOf, backoff, idleMs: 1_000 })
    const told = listener(robot)
    await robot.whenSynced()
    await writeFile(tokenFile, 'nonsense')
    laterMs = 60_000 // files are read again after a few seconds
    proxy.cut()
    await disturb('h1')
    proxy.heal()
    await waitFor('a refusal', () => String(robot.lastError).includes('Unauthorized'))
    expect(robot.get(`${namespace}/c1`)).toBeDefined()
    await writeFile(tokenFile, plane.token)
    expect(await settled(robot, told)).toEqual(right)
    await robot.stop()
  }, 120_000)

  test('leaves no socket behind', async () => {
    await informer.stop()
    expect(await waitFor('the watch to be closed', () => proxy.connections.open <= 2 && proxy.connections)).toMatchObject({
      open: expect.any(Number) as number,
    })
    expect(informer.size).toBeGreaterThan(0)
  })
})

test('an informer waits for a kind that does not exist yet', async () => {
  const at = await cluster({ controllers: false })
  const kube = await openTestKube(at)
  const namespace = await at.namespace()
  const group = `g${randomBytes(4).toString('hex')}.example.com`
  const kind = { apiVersion: `${group}/v1`, kind: 'Widget' }
  const informers = [true, false].map((streamLists) =>
    startInformer({ kube, clock, log }, { kind, namespace, project: versionOf, backoff, streamLists, pageSize: 2 }),
  )
  await waitFor('a refusal', () => informers.every((informer) => informer.lastError))
  expect(informers.map((informer) => informer.synced)).toEqual([false, false])
  await kube.create(widgetDefinition(group))
  await Promise.all(informers.map((informer) => informer.whenSynced()))
  for (const name of ['a', 'b', 'c', 'd', 'e'])
    await kube.apply({ ...kind, metadata: { name, namespace }, spec: { size: 1 } }, { fieldManager: 'test' })
  await waitFor('all of them', () => informers.every((informer) => informer.size === 5))
  await Promise.all(informers.map((informer) => informer.stop()))
  await kube.delete({ apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition', name: `widgets.${group}` })
})

test('an object that leaves the selector is reported as deleted', async () => {
  const at = await cluster({ controllers: false })
  const kube = await openTestKube(at)
  const namespace = await at.namespace()
  await kube.create(configMap(namespace, 'in', { secret: 'x' }, { team: 'one' }))
  await kube.create(configMap(namespace, 'out', {}, { team: 'two' }))
  const informer = startInformer({ kube, clock, log }, { kind: CONFIG_MAP, namespace, labelSelector: 'team=one', metadataOnly: true })
  const seen: string[] = []
  await informer.whenSynced()
  informer.onChange(({ type, key }) => seen.push(`${type} ${key}`))
  informer.onChange(() => {
    throw new Error('a handler that fails')
  })
  expect(informer.get(`${namespace}/in`)).toMatchObject({ kind: 'ConfigMap', metadata: { name: 'in' } })
  expect(informer.get(`${namespace}/in`)?.data).toBeUndefined()
  await kube.patch({ ...CONFIG_MAP, namespace, name: 'in' }, { type: 'merge', body: { metadata: { labels: { team: 'two' } } } })
  await waitFor('the deletion', () => informer.size === 0)
  expect(seen).toEqual([`added ${namespace}/in`, `deleted ${namespace}/in`])
  await informer.stop()
})

test.each([
  ['in pages', false],
  ['as a stream', true],
])('an invalid event leads to a new list (%s) with correct content', async (_how, streamLists) => {
  const at = await cluster({ controllers: false })
  const kube = await openTestKube(at)
  const namespace = await at.namespace()
  const between = await meddler(at)
  const informer = startInformer(
    { kube: openClosing(between.config), clock, log },
    { kind: CONFIG_MAP, namespace, project: versionOf, backoff, streamLists },
  )
  const heard = listener(informer)
  await informer.whenSynced()
  const rubbish = [
    '}{\n',
    '\u0000\u0001\n',
    '{"type":"ADDED","object":null}\n',
    `${'x'.repeat(9 * 1024 * 1024)}\n`,
    '[]\n',
    '{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n',
  ]
  let opened = 0
  for (const [round, bytes] of rubbish.entries()) {
    await waitFor('a watch to spoil', () => between.connectionCount() > opened)
    const { lists } = informer
    opened = between.connectionCount()
    between.spoil(bytes)
    await kube.create(configMap(namespace, `c${round}`))
    await waitFor('another list', () => informer.lists > lists)
  }
  await equalsTruth(kube, namespace, informer)
  expect([heard.believed, heard.wrong]).toEqual([await truth(kube, namespace), []])
  await informer.stop()
})
