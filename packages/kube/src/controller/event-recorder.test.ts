import { systemClock } from '@brokkr/runtime/clock.ts'
import { createLog, silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { cluster } from '@brokkr/testing/servers/kube.ts'
import { beforeAll, expect, test } from 'vitest'
import type { Kube } from '../client/kube.ts'
import { configMap, openTestKube } from '../test-parts/open-test-kube.ts'
import { createRecorder } from './event-recorder.ts'

const EVENT = { apiVersion: 'v1', kind: 'Event' }
let kube: Kube
let at: Awaited<ReturnType<typeof cluster>>
beforeAll(async () => {
  at = await cluster({ controllers: false })
  kube = await openTestKube(at)
})
const eventsOf = async (namespace: string) => (await kube.list(EVENT, { namespace })).items

test('a repeated event increases its count; another message creates an event', async () => {
  const namespace = await at.namespace()
  const about = await kube.create(configMap(namespace, 'a'))
  const recorder = createRecorder({ kube, clock: systemClock, log }, { component: 'brokkr-test' })
  for (let time = 0; time < 5; time++) recorder.record(about, { type: 'Warning', reason: 'Blocked', message: 'no way' })
  recorder.record(about, { type: 'Warning', reason: 'Blocked', message: 'another way' })
  await recorder.flush()
  const events = await eventsOf(namespace)
  expect(events.map((event) => [event['message'], event['count']]).toSorted((a, b) => String(a[0]).localeCompare(String(b[0])))).toEqual([
    ['another way', 1],
    ['no way', 5],
  ])
  expect(events[0]).toMatchObject({
    type: 'Warning',
    reason: 'Blocked',
    source: { component: 'brokkr-test' },
    involvedObject: { kind: 'ConfigMap', name: 'a', uid: about.metadata.uid },
  })
})

test('a deleted or old event is created again', async () => {
  const namespace = await at.namespace()
  const about = await kube.create(configMap(namespace, 'a'))
  let nowMs = Date.now()
  const recorder = createRecorder({ kube, clock: { ...systemClock, now: () => nowMs }, log }, { component: 'brokkr-test' })
  const record = async () => {
    recorder.record(about, { type: 'Normal', reason: 'Updated', message: 'again' })
    await recorder.flush()
    return (await eventsOf(namespace)).length
  }
  expect(await record()).toBe(1)
  const [event] = await eventsOf(namespace)
  await kube.delete({ ...EVENT, namespace, name: event?.metadata.name ?? '' })
  expect(await record()).toBe(1)
  nowMs += 11 * 60_000
  expect(await record()).toBe(2)
})

test('a named event is written once by several writers', async () => {
  const namespace = await at.namespace()
  const about = { apiVersion: 'v1', kind: 'ConfigMap', name: 'gone', namespace }
  const recorders = [1, 2].map(() => createRecorder({ kube, clock: systemClock, log }, { component: 'brokkr-test' }))
  for (const recorder of recorders) {
    recorder.record(about, { type: 'Normal', reason: 'Promote', message: 'once', name: 'run-7.promote', annotations: { version: '1.2.3' } })
    await recorder.flush()
  }
  expect((await eventsOf(namespace)).map(({ metadata, count }) => [metadata.name, metadata.annotations, count])).toEqual([
    ['run-7.promote', { version: '1.2.3' }, 1],
  ])
})

test('a refused event is only logged, and the queue is bounded', async () => {
  const lines: string[] = []
  const said = createLog({ name: 'test', destination: { write: (line) => lines.push(line) } })
  const recorder = createRecorder(
    { kube: kube.with({ as: { user: 'nobody' } }), clock: systemClock, log: said },
    { component: 'brokkr-test' },
  )
  for (let number = 0; number < 1_005; number++)
    recorder.record({ apiVersion: 'v1', kind: 'Node', name: `n${number}` }, { type: 'Normal', reason: 'X', message: String(number) })
  expect(recorder.dropped).toBeGreaterThan(0)
  await recorder.flush()
  expect(lines.length).toBeGreaterThan(900)
  expect(lines[0]).toContain('event not written')
}, 120_000)
