// Checkpoints in a ConfigMap on a real API server, and in a file.
import { mkdtemp, readFile, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { readCheckpoint } from '@brokkr/contract/dataflow/checkpoint.ts'
import { openKube } from '@brokkr/kube/client.ts'
import { loadKubeconfig } from '@brokkr/kube/kubeconfig.ts'
import { cluster } from '@brokkr/testing/kube.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, expect, test } from 'vitest'
import { Fenced, FlowCheckpoint } from './checkpoint.ts'
import { checkpointConfigMap } from './checkpoint-config-map.ts'
import { checkpointFile } from './checkpoint-file.ts'
import type { CheckpointStore } from './checkpoint-store.ts'
import { jsonMessage } from './test-parts/scripted.ts'
import { scriptedFlow } from './test-parts/scripted-flow.ts'

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
  const inner = checkpointConfigMap(kube, place)
  const store: CheckpointStore = {
    load: (aborted) => inner.load(aborted),
    save: (...given) => {
      counted.saves += 1
      return inner.save(...given)
    },
  }
  return { kube, ref, store, data, counted }
}

test('[D73] a later position stays, commits within the interval become one PATCH, and the text is as written down', async () => {
  const { store, data, counted } = await configMap()
  const checkpoint = new FlowCheckpoint(store, options('pod-1'))
  await checkpoint.take(signal)
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
  ['file', async () => checkpointFile(join(await mkdtemp(join(tmpdir(), 'checkpoint-')), 'c.json'))],
] as const

test.each(stores)('a second holder fences the first, whose save changes nothing (%s)', async (_name, open) => {
  const store = await open()
  const [first, second] = [new FlowCheckpoint(store, options('pod-1')), new FlowCheckpoint(store, options('pod-2'))]
  await first.take(signal)
  await first.save({ state: { lastReadChangeTime: 'a' } }, noCounts, signal)
  await second.take(signal)
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

test('keys of other sources and edits by other hands are kept', async () => {
  const { kube, ref, store, data } = await configMap()
  await kube.patch(ref, { type: 'merge', body: { data: { 'checkpoint.json': '{"v":1,"nessie":{"branch":"main"}}', other: 'x' } } })
  const checkpoint = new FlowCheckpoint(store, options('pod-1'))
  await checkpoint.take(signal)
  await kube.patch(ref, { type: 'merge', body: { metadata: { annotations: { touched: 'yes' } } } })
  await checkpoint.save({ state: { lastReadChangeTime: 'a' } }, noCounts, signal)
  expect(JSON.parse((await data())['checkpoint.json']!)).toMatchObject({
    nessie: { branch: 'main' },
    postgresql: { lastReadChangeTime: 'a' },
  })
  expect((await data())['other']).toBe('x')
})

test('counters go on where the last process saved them, and readers of one group add theirs', async () => {
  const { store } = await configMap()
  const counts = (read: number) => ({ ...noCounts, readCount: read, processedCount: read })
  const shared = (pod: string) => new FlowCheckpoint(store, { ...options(pod), isShared: true, sourceType: 'kafka' })
  const [one, two] = [shared('a'), shared('b')]
  await one.take(signal)
  await two.take(signal)
  await one.save({ state: undefined }, counts(10), signal)
  await two.save({ state: undefined }, counts(5), signal)
  await one.save({ state: undefined }, counts(12), signal)
  // What is counted since is told once it is saved: a kill would take it back.
  expect(one.savedCounters(counts(13)).readCount).toBe(17)
  await one.save({ state: undefined }, counts(13), signal)
  expect(one.savedCounters(counts(13)).readCount).toBe(18)
  const next = shared('c')
  await next.take(signal)
  expect(next.savedCounters(counts(1)).readCount).toBe(18)
})

test('names of older files are read, and a file that is none of ours stops the start', async () => {
  expect(readCheckpoint('{"v":1,"postgresql":{"lastReadID":"7","lastReadTime":"t"}}')).toEqual({
    v: 1,
    postgresql: { lastReadChangeTime: 't', lastReadOrderByValue: '7' },
  })
  expect(readCheckpoint('')).toBeUndefined()
  expect(() => readCheckpoint('{"v":9}')).toThrow('not a checkpoint of version 1')
  const path = join(await mkdtemp(join(tmpdir(), 'checkpoint-')), 'c.json')
  await writeFile(path, 'torn')
  await expect(checkpointFile(path).load(signal)).rejects.toThrow('move it away')
  expect(await readFile(path, 'utf8')).toBe('torn')
})
