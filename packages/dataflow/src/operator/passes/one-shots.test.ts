import { expect, test } from 'vitest'
import { annotation } from '../names.ts'
import { readOneShots } from './one-shots.ts'

const flowOf = (annotations: Record<string, string> = {}, spec: object = {}, uid = 'u1') => ({
  apiVersion: 'dataflow.dataflow.io/v1',
  kind: 'DataFlow',
  metadata: { name: 'orders', uid, annotations },
  spec: { ...spec },
})

test('a value arms a reset once, however often the object is applied; another value arms it again', () => {
  const first = readOneShots(flowOf({}, { checkpointReset: true }), {}, {})
  expect(first.oneShots.resetId).toMatch(/^[0-9a-f]{16}$/)
  const again = readOneShots(flowOf({}, { checkpointReset: true }), first.oneShots, first.seen)
  expect(again).toMatchObject({ oneShots: first.oneShots, seen: first.seen })
  const removed = readOneShots(flowOf(), again.oneShots, again.seen)
  expect(removed.oneShots).toEqual(first.oneShots)
  const back = readOneShots(flowOf({}, { checkpointReset: true }), removed.oneShots, removed.seen)
  expect(back.oneShots).toEqual(first.oneShots)
  const other = readOneShots(flowOf({}, { checkpointReset: '2026-01-01' }), back.oneShots, back.seen)
  expect(other.oneShots.resetId).not.toBe(first.oneShots.resetId)
})

test('an annotation arms a reset beside the field, and the field does not arm it again afterwards', () => {
  const field = readOneShots(flowOf({}, { checkpointReset: 'a' }), {}, {})
  const noted = readOneShots(flowOf({ [annotation.resetCheckpoint]: 'b' }, { checkpointReset: 'a' }), field.oneShots, field.seen)
  expect(noted.oneShots.resetId).not.toBe(field.oneShots.resetId)
  const without = readOneShots(flowOf({}, { checkpointReset: 'a' }), noted.oneShots, noted.seen)
  expect(without.oneShots).toEqual(noted.oneShots)
})

test('an object that was created again is armed again; false arms nothing', () => {
  const [first, second] = ['u1', 'u2'].map((uid) => readOneShots(flowOf({}, { checkpointReset: true }, uid), {}, {}).oneShots.resetId)
  expect(first).not.toBe(second)
  expect(readOneShots(flowOf({ [annotation.resetCheckpoint]: 'false' }, { checkpointReset: false }), {}, {}).oneShots).toEqual({})
})

test('a rewind and a replay act once per id, also when an older one is applied again', () => {
  const rewind = (id: string) => ({ [annotation.rewind]: JSON.stringify({ id, to: 'earliest' }) })
  const first = readOneShots(flowOf(rewind('r1')), {}, {})
  const second = readOneShots(flowOf(rewind('r2')), first.oneShots, first.seen)
  const older = readOneShots(flowOf(rewind('r1')), second.oneShots, second.seen)
  expect([first, second, older].map(({ oneShots }) => oneShots.rewind?.id)).toEqual(['r1', 'r2', 'r2'])
  const replay = { [annotation.replay]: '{"id":"p","max":3}' }
  const started = readOneShots(flowOf(replay), {}, {})
  expect([started.replay, readOneShots(flowOf(replay), {}, started.seen).replay]).toEqual([{ id: 'p', max: 3 }, undefined])
})

test('a replay that the object still names is not repeated after many other requests', () => {
  const annotationsOf = (n: number) => ({
    [annotation.replay]: '{"id":"p"}',
    [annotation.rewind]: JSON.stringify({ id: `r${n}`, to: 'earliest' }),
  })
  let seen = readOneShots(flowOf(annotationsOf(0)), {}, {}).seen
  for (let n = 1; n <= 120; n += 1) {
    const next = readOneShots(flowOf(annotationsOf(n)), {}, seen)
    expect([next.replay, next.oneShots.rewind?.id]).toEqual([undefined, `r${n}`])
    seen = next.seen
  }
  expect(seen.ids).toHaveLength(50)
})

test.each([
  [annotation.rewind, '{"id":"r"}'],
  [annotation.rewind, 'earliest'],
  [annotation.replay, '{"id":"","max":0}'],
])('%s with %s is refused with its form', (name, text) => {
  const { problems, oneShots, replay } = readOneShots(flowOf({ [name]: text }), {}, {})
  expect(problems).toEqual([
    { annotation: name, reason: expect.stringContaining('is not JSON of the form {"id"'), id: expect.stringMatching(/^[0-9a-f]{16}$/) },
  ])
  // The same value is the same problem; another value is a new one.
  const again = (value: string) => readOneShots(flowOf({ [name]: value }), {}, {}).problems[0]?.id
  expect([again(text) === problems[0]?.id, again(`${text} `) === problems[0]?.id]).toEqual([true, false])
  expect([oneShots, replay]).toEqual([{}, undefined])
})

test('a skip stays in the spec of the processor, so that its removal rolls no pod', () => {
  const skipped = readOneShots(flowOf({ [annotation.skip]: 'orders[0]=4' }), {}, {})
  expect(readOneShots(flowOf(), skipped.oneShots, skipped.seen).oneShots).toEqual({ skip: 'orders[0]=4' })
})
