import type { Frame } from '@brokkr/contract/feed/stream.ts'
import { describe, expect, test } from 'vitest'
import { readManifest } from '../desired-state/cached-manifest.ts'
import { restoreFromParents } from '../desired-state/saved-state.ts'
import { SyncState } from '../desired-state/sync-state.ts'
import {
  begin,
  bookmark,
  bye,
  contentPath,
  del,
  end,
  epochs,
  hello,
  marker,
  objectId,
  ping,
  put,
  putByUrl,
  skip,
  stackId,
} from '../test-parts/frames.ts'
import { BrokenFrame, type Effect } from './effect.ts'
import { FrameProcessor } from './frame-processor.ts'

/** Sends frames through one connection; what must be fetched comes from `contents`, or never. */
function follow(map: SyncState, frames: readonly Frame[], contents: Record<string, string> = {}, requestHadCursor = false): Effect[] {
  const connection = new FrameProcessor(map, requestHadCursor)
  const effects: Effect[] = []
  for (const frame of frames) {
    for (const effect of connection.process(frame)) {
      effects.push(effect)
      const text = effect.do === 'fetch' ? contents[effect.content.objectId] : undefined
      if (effect.do === 'fetch' && text !== undefined) effects.push(...connection.addContent(effect.content.objectId, text))
    }
  }
  return effects
}

const running = (map: SyncState) =>
  Object.fromEntries(
    [...map.desired.stacks.values()].map(({ stackName, rev, object }) => [
      stackName,
      `${rev} ${object ? readManifest(object).trim() : '-'}`,
    ]),
  )
const leaving = (map: SyncState) =>
  Object.fromEntries(
    [...map.desired.removals.values()].map(({ stackId: id, reason, decision }) => [Number(id.slice(-4)), `${reason} ${decision}`]),
  )
const looks = (effects: readonly Effect[]) =>
  effects.flatMap((effect) => (effect.do === 'reconcile' ? [Number(effect.stackId.slice(-4))] : []))
const kinds = (effects: readonly Effect[]) => effects.map((effect) => effect.do).filter((kind) => kind !== 'session')

const fail = (): never => {
  throw new Error('not held')
}
/** A map that followed a complete list of these puts. */
function mapOf(...puts: readonly Frame[]): SyncState {
  const map = new SyncState()
  follow(map, [hello(), begin(), ...puts, end(puts as never)])
  return map
}

describe('a snapshot and the frames after it', () => {
  test('each put is reconciled on arrival, and snapshot_end verifies the snapshot', () => {
    const map = new SyncState()
    const listed = [put(1, 7), put(2, 3, null), skip(3, 4, 'large')]
    const effects = follow(map, [hello(), begin(), ...listed, end(listed)])
    expect(looks(effects)).toEqual([1, 2, 3])
    expect(effects.at(-1)).toEqual({
      do: 'verified',
      snapshot: {
        listed: new Set([stackId(1), stackId(2), stackId(3)]),
        removals: new Set(),
        allowRemovals: null,
        epoch: epochs[0],
        boot: null,
        isNewEpoch: false,
      },
    })
    expect(running(map)).toEqual({ 'stack-1': '7 a: 7', 'stack-2': '3 -', '': '4 -' })
    expect([map.cursor, map.epoch]).toEqual(['after-list', epochs[0]])
  })

  const listed = [put(1, 7), del(2, 3)]
  test.each([
    ['a wrong digest', end(listed, { digest: 'f'.repeat(64) })],
    ['a wrong count', end(listed, { count: 2 })],
    ['another number of removals', end(listed, { removals: 0 })],
  ])('a snapshot with %s is unverified: no removal, no cursor', (_what, wrong) => {
    const map = mapOf(put(1, 6), put(2, 2))
    const before = map.cursor
    const effects = follow(map, [hello(), begin(), ...listed, wrong])
    expect(kinds(effects)).toEqual(['reconcile', 'unverified'])
    expect(map.cursor).toBe(before)
    expect(leaving(map)).toEqual({})
    expect(running(map)).toEqual({ 'stack-1': '7 a: 7', 'stack-2': '2 a: 2' })
  })

  test('a snapshot without its end is unverified', () => {
    const map = mapOf(put(1, 6), put(2, 2))
    follow(map, [hello(), begin(), put(1, 7), del(2, 3)])
    expect(leaving(map)).toEqual({})
    expect(map.cursor).toBe('after-list')
  })

  test('stacks absent from a snapshot keep running until the prune guard decides', () => {
    const map = mapOf(put(1, 1), put(2, 1), put(3, 1))
    const next = [put(1, 1), del(2, 1)]
    const effects = follow(map, [hello({ reason: 'digest' }), begin({ allow_removals: 2 }), ...next, end(next)])
    expect(effects.at(-1)).toEqual({
      do: 'verified',
      snapshot: {
        listed: new Set([stackId(1)]),
        removals: new Set([stackId(2)]),
        allowRemovals: 2,
        epoch: epochs[0],
        boot: null,
        isNewEpoch: false,
      },
    })
    expect(leaving(map)).toEqual({ 2: 'untargeted undecided', 3: 'absent undecided' })
    expect(map.desired.getAction(stackId(3))).toMatchObject({ do: 'run', isHeld: false })
    map.desired.decide(stackId(3), 'held')
    expect(map.desired.getAction(stackId(3))).toMatchObject({ do: 'run', isHeld: true })
    map.desired.decide(stackId(3), 'decided')
    expect(map.desired.getAction(stackId(3))).toMatchObject({ do: 'remove', marker: null })
  })

  test('snapshot_end with unchanged verifies the state without puts', () => {
    const map = mapOf(put(1, 1), put(2, 1))
    const effects = follow(map, [hello(), begin(), end([put(1, 1), put(2, 1)], { unchanged: true, cursor: 'later' })])
    expect(kinds(effects)).toEqual(['verified'])
    expect(map.cursor).toBe('later')
    expect(Object.keys(running(map))).toEqual(['stack-1', 'stack-2'])
    expect(kinds(follow(map, [hello(), begin(), end([put(1, 2)], { unchanged: true })]))).toEqual(['unverified'])
  })

  test('a frame after the end of a snapshot overrides the snapshot', () => {
    const map = mapOf(put(1, 1), put(2, 1), put(3, 1))
    const next = [putByUrl(1, 2, 'large'), del(2, 1)]
    const live = [put(2, 2), put(3, 2), bookmark('live')]
    const effects = follow(map, [hello(), begin(), ...next, end(next), ...live])
    // The content of stack 1 is not here yet, so nothing is proven, and no cursor is kept.
    expect(looks(effects)).toEqual([2, 3])
    expect(map.cursor).toBe('after-list')
    const connection = new FrameProcessor(map)
    for (const frame of [hello(), begin(), ...next, end(next), ...live]) connection.process(frame)
    expect(connection.addContent(objectId(1, 2), 'large').at(-1)).toMatchObject({ do: 'verified', snapshot: { removals: new Set() } })
    expect(running(map)).toEqual({ 'stack-1': '2 large', 'stack-2': '2 a: 2', 'stack-3': '2 a: 2' })
    expect([leaving(map), map.cursor]).toEqual([{}, 'live'])
  })
})

describe('live frames', () => {
  const live = (map: SyncState, ...frames: Frame[]) => follow(map, [hello({ mode: 'resume' }), ...frames])
  test.each([
    ['a newer rev is taken', put(1, 8), '8 a: 8', ['reconcile']],
    ['a lower rev is ignored', put(1, 6), '7 a: 7', ['ignored']],
    ['the same again is no work', put(1, 7), '7 a: 7', ['ignored']],
    [
      'another object at the same rev is',
      put(1, 7, 'b: 1\n', { object: { ...put(1, 6, 'b: 1\n').object!, sequence_id: 6 } }),
      '7 b: 1',
      ['reconcile'],
    ],
    ['a skip keeps what runs', skip(1, 8, 'x'), '8 a: 7', ['reconcile']],
    ['nothing wanted changes nothing', put(1, 8, null), '8 -', ['reconcile']],
    ['a ping has no effect', ping(), '7 a: 7', []],
  ])('%s', (_what, frame, expected, effects) => {
    const map = mapOf(put(1, 7))
    expect(kinds(live(map, frame))).toEqual(effects)
    expect(running(map)['stack-1']).toBe(expected)
  })

  test('a changed stack name is stored without an attempt', () => {
    const map = mapOf(put(1, 7))
    expect(kinds(live(map, { ...put(1, 7), stack_name: 'renamed' }))).toEqual(['ignored'])
    expect(running(map)).toEqual({ renamed: '7 a: 7' })
  })

  test('a snapshot equal to the restored state reconciles nothing', () => {
    const { id, checksum, sequenceId, content } = mapOf(put(1, 7)).desired.stacks.get(stackId(1))?.object ?? fail()
    const map = restoreFromParents([{ stackId: stackId(1), rev: 7, sequenceId, objectId: id, drift: 'heal', checksum, manifest: content }])
    map.epoch = epochs[0]
    expect(looks(follow(map, [hello(), begin(), put(1, 7), put(2, 1), end([put(1, 7), put(2, 1)])]))).toEqual([2])
  })

  test('a del frame removes the stack at once, and one with a lower rev is ignored', () => {
    const map = mapOf(put(1, 7), put(2, 7))
    live(map, del(1, 7), del(2, 6))
    expect(map.desired.getAction(stackId(1))).toEqual({ do: 'remove', stackId: stackId(1), rev: 7, marker: null })
    expect(map.desired.getAction(stackId(2)).do).toBe('run')
  })

  test('a put before the removal is complete runs the stack again', () => {
    const map = mapOf(put(1, 7))
    live(map, del(1, 7), put(1, 7))
    expect(map.desired.getAction(stackId(1)).do).toBe('run')
    expect(leaving(map)).toEqual({})
  })

  test('a deletion marker requests removal and stays in the desired state', () => {
    const map = mapOf(put(1, 7))
    live(map, marker(1, 8))
    expect(map.desired.getAction(stackId(1))).toMatchObject({ do: 'remove', rev: 8, marker: { id: objectId(1, 8) } })
    expect(map.desired.summary().count).toBe(1)
  })

  test('a bye frame stores its cursor and returns its retry time', () => {
    const map = mapOf(put(1, 7))
    expect(live(map, bye({ cursor: 'last', retry_after_ms: 4180 })).at(-1)).toEqual({ do: 'bye', reason: 'drain', retryAfterMs: 4180 })
    expect(map.cursor).toBe('last')
  })
})

describe('content by URL', () => {
  test('the cursor waits until the content has arrived', () => {
    const map = mapOf(put(1, 1))
    const connection = new FrameProcessor(map)
    for (const frame of [hello({ mode: 'resume' }), putByUrl(1, 2, 'large'), bookmark('one'), put(2, 1), bookmark('two')])
      connection.process(frame)
    expect(map.cursor).toBe('after-list')
    expect(running(map)).toMatchObject({ 'stack-1': '1 a: 1', 'stack-2': '1 a: 1' })
    expect(looks(connection.addContent(objectId(1, 2), 'large'))).toEqual([1])
    expect([running(map)['stack-1'], map.cursor]).toEqual(['2 large', 'two'])
  })

  test('content of a put that a removal with the same number followed brings nothing back', () => {
    const map = mapOf(put(1, 1))
    const connection = new FrameProcessor(map)
    for (const frame of [hello({ mode: 'resume' }), putByUrl(1, 2, 'large'), del(1, 2), bookmark('one')]) connection.process(frame)
    expect(looks(connection.addContent(objectId(1, 2), 'large'))).toEqual([])
    expect([running(map), leaving(map), map.cursor]).toEqual([{}, { 1: 'untargeted decided' }, 'one'])
  })

  test('content of a superseded put is discarded', () => {
    const map = mapOf(put(1, 1))
    const connection = new FrameProcessor(map)
    for (const frame of [hello({ mode: 'resume' }), putByUrl(1, 2, 'large'), put(1, 3), bookmark('one')]) connection.process(frame)
    expect(kinds(connection.addContent(objectId(1, 2), 'large'))).toEqual(['ignored'])
    expect([running(map)['stack-1'], map.cursor]).toEqual(['3 a: 3', 'one'])
  })

  test('cached content is not fetched again', () => {
    const map = new SyncState()
    const listed = [putByUrl(1, 2, 'large')]
    const first = follow(map, [hello(), begin(), ...listed, end(listed)], { [objectId(1, 2)]: 'large' })
    expect(first).toContainEqual({ do: 'fetch', content: expect.objectContaining({ path: contentPath(1, 2) }) })
    expect(kinds(follow(map, [hello(), begin(), ...listed, end(listed)]))).toEqual(['ignored', 'verified'])
  })
})

describe('another epoch', () => {
  test('a verified snapshot of another epoch replaces the state, also with lower revs', () => {
    const map = mapOf(put(1, 9), put(2, 9), put(3, 9))
    const listed = [put(1, 4), put(2, 9)]
    const connection = new FrameProcessor(map)
    const frames = [hello({ epoch: epochs[1], reason: 'epoch' }), begin(), ...listed]
    const before = frames.flatMap((frame) => connection.process(frame))
    expect(looks(before)).toEqual([])
    expect(running(map)).toMatchObject({ 'stack-1': '9 a: 9' })
    const after = connection.process(end(listed, { cursor: 'new' }))
    expect(looks(after)).toEqual([1])
    expect(running(map)).toEqual({ 'stack-1': '4 a: 4', 'stack-2': '9 a: 9' })
    expect([map.epoch, map.cursor, leaving(map)]).toEqual([epochs[1], 'new', { 3: 'absent undecided' }])
  })

  test('an unverified snapshot of another epoch changes nothing', () => {
    const map = mapOf(put(1, 9))
    follow(map, [hello({ epoch: epochs[1] }), begin(), put(1, 4), end([put(1, 5)])])
    expect([running(map), map.epoch, map.cursor]).toEqual([{ 'stack-1': '9 a: 9' }, epochs[0], 'after-list'])
  })

  test('without a cursor, another boot id counts as a new epoch', () => {
    const [first, second] = ['b0070000-0000-4000-8000-000000000001', 'b0070000-0000-4000-8000-000000000002']
    const listed = [put(1, 4)]
    const list = (boot: string | undefined, requestHadCursor: boolean) => {
      const map = new SyncState()
      const all = [put(1, 9), put(2, 9)]
      follow(map, [hello({ boot: first }), begin(), ...all, end(all)])
      const told = follow(map, [hello({ boot }), begin(), ...listed, end(listed)], {}, requestHadCursor).find(
        (effect) => effect.do === 'verified',
      )
      return [running(map)['stack-1'], told?.snapshot.isNewEpoch, map.boot]
    }
    expect(list(second, false)).toEqual(['4 a: 4', true, second])
    // The broker has looked at the cursor, and found it to be one of its own.
    expect(list(second, true)).toEqual(['9 a: 9', false, second])
    expect(list(first, false)).toEqual(['9 a: 9', false, first])
    // Brokers that do not say.
    expect(list(undefined, false)).toEqual(['9 a: 9', false, null])
  })

  test('a digest mismatch replaces the whole state and still detects a new epoch', () => {
    const told = [epochs[0], epochs[1]].map((epoch) => {
      const map = mapOf(put(1, 9), put(2, 9))
      map.hasDigestMismatch = true
      const effects = follow(map, [hello({ epoch, reason: 'digest' }), begin(), put(1, 4), end([put(1, 4)])], {}, true)
      const verified = effects.find((effect) => effect.do === 'verified')
      return [running(map)['stack-1'], verified?.snapshot.isNewEpoch, map.hasDigestMismatch]
    })
    expect(told).toEqual([
      ['4 a: 4', false, false],
      ['4 a: 4', true, false],
    ])
  })

  test('a resumed stream stores the boot id, and a dropped cursor stays the last cursor', () => {
    const map = mapOf(put(1, 9))
    follow(map, [hello({ mode: 'resume', boot: 'b0070000-0000-4000-8000-000000000002' }), bookmark('newest')], {}, true)
    map.cursor = null
    expect([map.boot, map.lastCursor]).toEqual(['b0070000-0000-4000-8000-000000000002', 'newest'])
  })

  test('a decided removal survives a new epoch', () => {
    const map = mapOf(put(1, 9), put(2, 9))
    follow(map, [hello({ mode: 'resume' }), del(2, 9)])
    const listed = [put(1, 1)]
    follow(map, [hello({ epoch: epochs[1] }), begin(), ...listed, end(listed)])
    expect(map.desired.getAction(stackId(2)).do).toBe('remove')
  })
})

test.each([
  ['a frame before hello', [put(1, 1)]],
  ['another protocol', [hello({ protocol: 2 })]],
  ['a second hello', [hello(), hello()]],
  ['a resume in another epoch', [hello({ mode: 'resume', epoch: epochs[1] })]],
  ['a snapshot_end without a snapshot_begin', [hello(), end([])]],
  ['the end of another list', [hello(), begin(), end([], { id: '9a410000-0000-4000-8000-000000000009' })]],
  ['two ends of one list', [hello(), begin(), putByUrl(1, 1, 'x'), end([putByUrl(1, 1, 'x')]), end([])]],
  ['content that does not have its checksum', [hello(), put(1, 1, 'a', { object: { ...put(1, 1, 'a').object!, yaml_content: 'b' } })]],
  ['a put without content', [hello(), put(1, 1, 'a', { object: { ...put(1, 1, 'a').object!, yaml_content: undefined } })]],
  [
    'content at a strange address',
    [hello(), put(1, 1, 'a', { object: { ...putByUrl(1, 1, 'a').object!, content_url: '//evil.example/x' } })],
  ],
])('%s breaks the stream and changes neither state nor cursor', (_what, frames) => {
  const map = mapOf(put(5, 1))
  const before = [running(map), map.cursor, map.epoch]
  expect(() => follow(map, frames as Frame[])).toThrow(BrokenFrame)
  expect([running(map), map.cursor, map.epoch]).toEqual(before)
})
