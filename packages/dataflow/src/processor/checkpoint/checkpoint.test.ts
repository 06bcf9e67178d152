// Checkpoints in a ConfigMap on a real API server, and in a file.
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readCheckpoint } from '@brokkr/contract/dataflow/checkpoint.ts'
import { loadKubeconfig, openKube } from '@brokkr/kube'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, expect, test } from 'vitest'
import { jsonMessage } from '../test-parts/scripted.ts'
import { scriptedFlow } from '../test-parts/scripted-flow.ts'
import { Fenced, FlowCheckpoint } from './checkpoint.ts'
import type { CheckpointStore } from './checkpoint-store.ts'
import { createConfigMapStore } from './config-map-store.ts'
import { createFileStore } from './file-store.ts'

const closing: (() => Promise<void>)[] = []
afterAll(async () => {
  for (const close of closing) await close()
})
const { signal } = new AbortController()
const noCounts = {
  readCount: 0,
  processedCount: 0,
  writtenCount: 0,
  droppedCount: 0,
  errorCount: 0,
  countersSince: '2026-01-01T00:00:00.000Z',
}
const options = (pod: string) => ({ pod, uid: `uid-${pod}`, sourceType: 'postgresql', isShared: false })

async function configMap() {
  const plane = await cluster({ controllers: false })
  const namespace = await plane.namespace('checkpoint')
  const kube = openKube(await loadKubeconfig({ path: plane.kubeconfigPath, env: {} }))
  closing.push(() => kube.close())
  const place = { namespace, name: 'dataflow-a-checkpoint' }
  const ref = { apiVersion: 'v1', kind: 'ConfigMap', ...place }
  await kube.create({ apiVersion: 'v1', kind: 'ConfigMap', metadata: place })
  const data = async () => ((await kube.get(ref))['data'] ?? {}) as Record<string, string>
  const counted = { saves: 0 }
  const inner = createConfigMapStore(kube, place)
  const store: CheckpointStore = {
    load: (aborted) => inner.load(aborted),
    save: (...given) => {
      counted.saves += 1
      return inner.save(...given)
    },
  }
  return { kube, ref, store, data, counted }
}

test('[D73] commits within the interval become one PATCH with the latest position', async () => {
  const { store, data, counted } = await configMap()
  const checkpoint = new FlowCheckpoint(store, options('pod-1'))
  await checkpoint.takeOver(signal)
  const before = counted.saves
  const spec = {
    source: { type: 'postgresql', config: { connectionString: 'postgres://h/d', table: 't', overlapSeconds: 5 } },
    sink: { type: 'postgresql', config: { connectionString: 'postgres://h/d', table: 'u', upsertMode: true } },
    checkpointSaveInterval: '1s',
  }
  const flow = scriptedFlow(spec, { checkpoint, isBounded: false })
  flow.source.keeps = (committed) => ({
    lastReadChangeTime: `t${committed[0] as number}`,
    lastReadOrderByValue: `${committed[0] as number}`,
  })
  for (const position of [3, 5, 4]) {
    flow.source.push({ messages: [jsonMessage({ position }, position)] })
    await waitFor(`message ${position} to be written`, () => flow.sink.rows.includes(JSON.stringify({ position })))
    if (position !== 4) await waitFor(`the commit of ${position}`, () => flow.source.committed[0] === position)
  }
  await waitFor('the save', () => counted.saves > before)
  await waitFor('its effect', async () => (await data())['checkpoint.json']?.includes('t5'))
  expect(counted.saves).toBe(before + 1)
  expect(JSON.parse((await data())['checkpoint.json']!)).toEqual({
    v: 1,
    holder: { pod: 'pod-1', uid: 'uid-pod-1', epoch: 1 },
    postgresql: { lastReadChangeTime: 't5', lastReadOrderByValue: '5' },
  })
  flow.pipeline.stop()
  await flow.done
  expect(flow.source.commits.map((commit) => commit.get(0))).toEqual([3, 5])
  expect(JSON.parse((await data())['progress.json']!)).toMatchObject({ counters: { readCount: 3, writtenCount: 3 } })
})

const stores = [
  ['ConfigMap', async () => (await configMap()).store],
  ['file', async () => createFileStore(join(await mkdtemp(join(tmpdir(), 'checkpoint-')), 'c.json'))],
] as const

test.each(stores)('a second owner fences the first one, and its save fails (%s)', async (_name, open) => {
  const store = await open()
  const [first, second] = [new FlowCheckpoint(store, options('pod-1')), new FlowCheckpoint(store, options('pod-2'))]
  await first.takeOver(signal)
  await first.save({ state: { lastReadChangeTime: 'a' } }, noCounts, signal)
  await second.takeOver(signal)
  expect([second.epoch, second.state]).toEqual([2, { lastReadChangeTime: 'a' }])
  const kept = await store.load(signal)
  await expect(first.save({ state: { lastReadChangeTime: 'b' } }, noCounts, signal)).rejects.toThrow(Fenced)
  expect(await store.load(signal)).toEqual(kept)
  await second.save({ state: { lastReadChangeTime: 'c' }, resetId: 'g4' }, noCounts, signal)
  expect(readCheckpoint((await store.load(signal)).texts['checkpoint.json'])).toMatchObject({
    holder: { pod: 'pod-2', epoch: 2 },
    resetId: 'g4',
    postgresql: { lastReadChangeTime: 'c' },
  })
})

test('a save keeps keys of other sources and manual edits', async () => {
  const { kube, ref, store, data } = await configMap()
  await kube.patch(ref, { type: 'merge', body: { data: { 'checkpoint.json': '{"v":1,"nessie":{"branch":"main"}}', other: 'x' } } })
  const checkpoint = new FlowCheckpoint(store, options('pod-1'))
  await checkpoint.takeOver(signal)
  await kube.patch(ref, { type: 'merge', body: { metadata: { annotations: { touched: 'yes' } } } })
  await checkpoint.save({ state: { lastReadChangeTime: 'a' } }, noCounts, signal)
  expect(JSON.parse((await data())['checkpoint.json']!)).toMatchObject({
    nessie: { branch: 'main' },
    postgresql: { lastReadChangeTime: 'a' },
  })
  expect((await data())['other']).toBe('x')
})

test('a reset removes the state of a source that has none afterwards; other saves keep it', async () => {
  const store = createFileStore(join(await mkdtemp(join(tmpdir(), 'checkpoint-')), 'c.json'))
  const checkpoint = new FlowCheckpoint(store, options('pod-1'))
  const saved = async () => readCheckpoint((await store.load(signal)).texts['checkpoint.json'])
  await checkpoint.takeOver(signal)
  const first = { lastReadChangeTime: 'a', lastReadOrderByValue: '1' }
  await checkpoint.save({ state: first, resetId: 'g1' }, noCounts, signal)
  await checkpoint.save({ state: undefined, resetId: 'g1' }, noCounts, signal)
  expect(await saved()).toMatchObject({ resetId: 'g1', postgresql: first })
  await checkpoint.save({ state: undefined, resetId: 'g2' }, noCounts, signal)
  expect(await saved()).toEqual({ v: 1, holder: { pod: 'pod-1', uid: 'uid-pod-1', epoch: 1 }, resetId: 'g2' })
  expect(checkpoint.state).toBeUndefined()
  await checkpoint.save({ state: first, resetId: 'g2' }, noCounts, signal)
  await checkpoint.save({ state: undefined, resetId: 'g2', rewindId: 'r1' }, noCounts, signal)
  expect(await saved()).not.toHaveProperty('postgresql')
})

test('counters continue from the last save and add up over replicas', async () => {
  const { store } = await configMap()
  const counts = (read: number) => ({ ...noCounts, readCount: read, processedCount: read })
  const shared = (pod: string) => new FlowCheckpoint(store, { ...options(pod), isShared: true, sourceType: 'kafka' })
  const [one, two] = [shared('a'), shared('b')]
  await one.takeOver(signal)
  await two.takeOver(signal)
  await one.save({ state: undefined }, counts(10), signal)
  await two.save({ state: undefined }, counts(5), signal)
  await one.save({ state: undefined }, counts(12), signal)
  // What is counted since is told once it is saved: a kill would take it back.
  expect(one.savedCounters(counts(13)).readCount).toBe(17)
  await one.save({ state: undefined }, counts(13), signal)
  expect(one.savedCounters(counts(13)).readCount).toBe(18)
  const next = shared('c')
  await next.takeOver(signal)
  expect(next.savedCounters(counts(1)).readCount).toBe(18)
})

test('old field names are read, and a foreign file stops the start', async () => {
  expect(readCheckpoint('{"v":1,"postgresql":{"lastReadID":"7","lastReadTime":"t"}}')).toEqual({
    v: 1,
    postgresql: { lastReadChangeTime: 't', lastReadOrderByValue: '7' },
  })
  expect(readCheckpoint('')).toBeUndefined()
  expect(() => readCheckpoint('{"v":9}')).toThrow('not a checkpoint of version 1')
  const path = join(await mkdtemp(join(tmpdir(), 'checkpoint-')), 'c.json')
  await writeFile(path, 'torn')
  await expect(createFileStore(path).load(signal)).rejects.toThrow('delete the file')
  expect(await readFile(path, 'utf8')).toBe('torn')
})

test.each([
  ['text without JSON', () => '{'],
  ['form of another version', (text: string) => text.replace('"v":1', '"v":2')],
])('a reset that was carried out does not replace a checkpoint that gets a %s later', async (_case, damage) => {
  const path = join(await mkdtemp(join(tmpdir(), 'brokkr-checkpoint-')), 'checkpoint.json')
  const take = async (resetId: string) => {
    const checkpoint = new FlowCheckpoint(createFileStore(path), options('pod-1'))
    await checkpoint.takeOver(signal, resetId)
    return checkpoint
  }
  const first = await take('r1')
  await first.save({ state: { lastReadChangeTime: '2026-01-01T00:00:00Z', lastReadOrderByValue: '7' }, resetId: 'r1' }, noCounts, signal)
  const kept = JSON.parse(await readFile(path, 'utf8')) as { texts: Record<string, string> }
  const texts = { ...kept.texts, 'checkpoint.json': damage(kept.texts['checkpoint.json']!) }
  await writeFile(path, JSON.stringify({ ...kept, texts }))
  await expect(take('r1')).rejects.toThrow(/is not a checkpoint of version 1/)
  expect((await take('r2')).state).toBeUndefined()
})

test.each(stores)('a sink saves its state before it writes, and a fenced processor cannot (%s)', async (_name, open) => {
  const store = await open()
  const first = new FlowCheckpoint(store, options('pod-1'))
  await first.takeOver(signal)
  await first.saveSinkState('test/flow', { token: 'a' }, signal)
  await first.save({ state: { lastReadChangeTime: 'x' } }, noCounts, signal)
  await first.saveSinkState('test/flow/route', { token: 'b' }, signal)
  const second = new FlowCheckpoint(store, options('pod-2'))
  await second.takeOver(signal)
  expect([second.getSinkState('test/flow'), second.getSinkState('test/flow/route'), second.state]).toEqual([
    { token: 'a' },
    { token: 'b' },
    { lastReadChangeTime: 'x' },
  ])
  await expect(first.saveSinkState('test/flow', { token: 'c' }, signal)).rejects.toThrow(Fenced)
  expect(second.getSinkState('test/flow')).toEqual({ token: 'a' })
})
