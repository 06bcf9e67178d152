import type { Frame } from '@brokkr/contract/stream.ts'
import { describe, expect, test } from 'vitest'
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
import { Connection } from './connection.ts'
import { BrokenFrame, type Effect } from './effect.ts'
import { textOf } from './held-object.ts'
import { mapOfKept } from './saved-map.ts'
import { WantedMap } from './wanted-map.ts'

/** Sends frames through one connection; what must be fetched comes from `contents`, or never. */
function follow(map: WantedMap, frames: readonly Frame[], contents: Record<string, string> = {}, hasShown = false): Effect[] {
  const connection = new Connection(map, hasShown)
  const effects: Effect[] = []
  for (const frame of frames) {
    for (const effect of connection.take(frame)) {
      effects.push(effect)
      const text = effect.do === 'fetch' ? contents[effect.content.objectId] : undefined
      if (effect.do === 'fetch' && text !== undefined) effects.push(...connection.content(effect.content.objectId, text))
    }
  }
  return effects
}

const running = (map: WantedMap) =>
  Object.fromEntries(
    [...map.levels.wanted.values()].map(({ stackName, rev, object }) => [stackName, `${rev} ${object ? textOf(object).trim() : '-'}`]),
  )
const leaving = (map: WantedMap) =>
  Object.fromEntries(
    [...map.levels.leaving.values()].map(({ stackId: id, reason, decision }) => [Number(id.slice(-4)), `${reason} ${decision}`]),
  )
const looks = (effects: readonly Effect[]) => effects.flatMap((effect) => (effect.do === 'look' ? [Number(effect.stackId.slice(-4))] : []))
const kinds = (effects: readonly Effect[]) => effects.map((effect) => effect.do).filter((kind) => kind !== 'session')

const fail = (): never => {
  throw new Error('not held')
}
/** A map that followed a complete list of these puts. */
function mapOf(...puts: readonly Frame[]): WantedMap {
  const map = new WantedMap()
  follow(map, [hello(), begin(), ...puts, end(puts as never)])
  return map
}

describe('a list and what follows it', () => {
  test('puts are looked at as they come, and the end of the list proves it complete', () => {
    const map = new WantedMap()
    const listed = [put(1, 7), put(2, 3, null), skip(3, 4, 'large')]
    const effects = follow(map, [hello(), begin(), ...listed, end(listed)])
    expect(looks(effects)).toEqual([1, 2, 3])
    expect(effects.at(-1)).toEqual({
      do: 'verified',
      list: {
        mentioned: new Set([stackId(1), stackId(2), stackId(3)]),
        dels: new Set(),
        allowRemovals: null,
        epoch: epochs[0],
        boot: null,
        isNewHistory: false,
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
  ])('a list with %s proves nothing: no removal, no cursor', (_what, wrong) => {
    const map = mapOf(put(1, 6), put(2, 2))
    const before = map.cursor
    const effects = follow(map, [hello(), begin(), ...listed, wrong])
    expect(kinds(effects)).toEqual(['look', 'unverified'])
    expect(map.cursor).toBe(before)
    expect(leaving(map)).toEqual({})
    expect(running(map)).toEqual({ 'stack-1': '7 a: 7', 'stack-2': '2 a: 2' })
  })

  test('a list that is cut before its end proves nothing', () => {
    const map = mapOf(put(1, 6), put(2, 2))
    follow(map, [hello(), begin(), put(1, 7), del(2, 3)])
    expect(leaving(map)).toEqual({})
    expect(map.cursor).toBe('after-list')
  })

  test('what a complete list names as gone or does not mention waits for the guard and runs on', () => {
    const map = mapOf(put(1, 1), put(2, 1), put(3, 1))
    const next = [put(1, 1), del(2, 1)]
    const effects = follow(map, [hello({ reason: 'digest' }), begin({ allow_removals: 2 }), ...next, end(next)])
    expect(effects.at(-1)).toEqual({
      do: 'verified',
      list: {
        mentioned: new Set([stackId(1)]),
        dels: new Set([stackId(2)]),
        allowRemovals: 2,
        epoch: epochs[0],
        boot: null,
        isNewHistory: false,
      },
    })
    expect(leaving(map)).toEqual({ 2: 'untargeted undecided', 3: 'absent undecided' })
    expect(map.levels.level(stackId(3))).toMatchObject({ do: 'run', isHeld: false })
    map.levels.decide(stackId(3), 'held')
    expect(map.levels.level(stackId(3))).toMatchObject({ do: 'run', isHeld: true })
    map.levels.decide(stackId(3), 'decided')
    expect(map.levels.level(stackId(3))).toMatchObject({ do: 'remove', marker: null })
  })

  test('a list that says "as you have it" proves the map complete without sending it', () => {
    const map = mapOf(put(1, 1), put(2, 1))
    const effects = follow(map, [hello(), begin(), end([put(1, 1), put(2, 1)], { unchanged: true, cursor: 'later' })])
    expect(kinds(effects)).toEqual(['verified'])
    expect(map.cursor).toBe('later')
    expect(Object.keys(running(map))).toEqual(['stack-1', 'stack-2'])
    expect(kinds(follow(map, [hello(), begin(), end([put(1, 2)], { unchanged: true })]))).toEqual(['unverified'])
  })

  test('what came after the end of the list knows better than the list', () => {
    const map = mapOf(put(1, 1), put(2, 1), put(3, 1))
    const next = [putByUrl(1, 2, 'large'), del(2, 1)]
    const live = [put(2, 2), put(3, 2), bookmark('live')]
    const effects = follow(map, [hello(), begin(), ...next, end(next), ...live])
    // The content of stack 1 is not here yet, so nothing is proven, and no cursor is kept.
    expect(looks(effects)).toEqual([2, 3])
    expect(map.cursor).toBe('after-list')
    const connection = new Connection(map)
    for (const frame of [hello(), begin(), ...next, end(next), ...live]) connection.take(frame)
    expect(connection.content(objectId(1, 2), 'large').at(-1)).toMatchObject({ do: 'verified', list: { dels: new Set() } })
    expect(running(map)).toEqual({ 'stack-1': '2 large', 'stack-2': '2 a: 2', 'stack-3': '2 a: 2' })
    expect([leaving(map), map.cursor]).toEqual([{}, 'live'])
  })
})

describe('live frames', () => {
  const live = (map: WantedMap, ...frames: Frame[]) => follow(map, [hello({ mode: 'resume' }), ...frames])
  test.each([
    ['a newer rev is taken', put(1, 8), '8 a: 8', ['look']],
    ['a lower rev is ignored', put(1, 6), '7 a: 7', ['ignored']],
    ['the same again is no work', put(1, 7), '7 a: 7', ['ignored']],
    [
      'another object at the same rev is',
      put(1, 7, 'b: 1\n', { object: { ...put(1, 6, 'b: 1\n').object!, sequence_id: 6 } }),
      '7 b: 1',
      ['look'],
    ],
    ['a skip keeps what runs', skip(1, 8, 'x'), '8 a: 7', ['look']],
    ['nothing wanted changes nothing', put(1, 8, null), '8 -', ['look']],
    ['a ping has no effect', ping(), '7 a: 7', []],
  ])('%s', (_what, frame, expected, effects) => {
    const map = mapOf(put(1, 7))
    expect(kinds(live(map, frame))).toEqual(effects)
    expect(running(map)['stack-1']).toBe(expected)
  })

  test('another name alone is kept, and no work', () => {
    const map = mapOf(put(1, 7))
    expect(kinds(live(map, { ...put(1, 7), stack_name: 'renamed' }))).toEqual(['ignored'])
    expect(running(map)).toEqual({ renamed: '7 a: 7' })
  })

  test('after a restart a list that wants what the cluster kept asks for no further look', () => {
    const { id, checksum, sequenceId, content } = mapOf(put(1, 7)).levels.wanted.get(stackId(1))?.object ?? fail()
    const map = mapOfKept([{ stackId: stackId(1), rev: 7, sequenceId, objectId: id, drift: 'heal', checksum, manifest: content }])
    map.epoch = epochs[0]
    expect(looks(follow(map, [hello(), begin(), put(1, 7), put(2, 1), end([put(1, 7), put(2, 1)])]))).toEqual([2])
  })

  test('a del is carried out at once, and a lower one is ignored', () => {
    const map = mapOf(put(1, 7), put(2, 7))
    live(map, del(1, 7), del(2, 6))
    expect(map.levels.level(stackId(1))).toEqual({ do: 'remove', stackId: stackId(1), rev: 7, marker: null })
    expect(map.levels.level(stackId(2)).do).toBe('run')
  })

  test('a stack that comes back before its removal is done runs again', () => {
    const map = mapOf(put(1, 7))
    live(map, del(1, 7), put(1, 7))
    expect(map.levels.level(stackId(1)).do).toBe('run')
    expect(leaving(map)).toEqual({})
  })

  test('a marker asks for removal and stays in the wanted set', () => {
    const map = mapOf(put(1, 7))
    live(map, marker(1, 8))
    expect(map.levels.level(stackId(1))).toMatchObject({ do: 'remove', rev: 8, marker: { id: objectId(1, 8) } })
    expect(map.levels.summary().count).toBe(1)
  })

  test('a bye keeps its cursor and says when to come back', () => {
    const map = mapOf(put(1, 7))
    expect(live(map, bye({ cursor: 'last', retry_after_ms: 4180 })).at(-1)).toEqual({ do: 'bye', reason: 'drain', retryAfterMs: 4180 })
    expect(map.cursor).toBe('last')
  })
})

describe('content that travels by address', () => {
  test('the cursor waits until it is here', () => {
    const map = mapOf(put(1, 1))
    const connection = new Connection(map)
    for (const frame of [hello({ mode: 'resume' }), putByUrl(1, 2, 'large'), bookmark('one'), put(2, 1), bookmark('two')])
      connection.take(frame)
    expect(map.cursor).toBe('after-list')
    expect(running(map)).toMatchObject({ 'stack-1': '1 a: 1', 'stack-2': '1 a: 1' })
    expect(looks(connection.content(objectId(1, 2), 'large'))).toEqual([1])
    expect([running(map)['stack-1'], map.cursor]).toEqual(['2 large', 'two'])
  })

  test('what was overtaken meanwhile does not come back', () => {
    const map = mapOf(put(1, 1))
    const connection = new Connection(map)
    for (const frame of [hello({ mode: 'resume' }), putByUrl(1, 2, 'large'), put(1, 3), bookmark('one')]) connection.take(frame)
    expect(kinds(connection.content(objectId(1, 2), 'large'))).toEqual(['ignored'])
    expect([running(map)['stack-1'], map.cursor]).toEqual(['3 a: 3', 'one'])
  })

  test('what we hold already is not fetched again', () => {
    const map = new WantedMap()
    const listed = [putByUrl(1, 2, 'large')]
    const first = follow(map, [hello(), begin(), ...listed, end(listed)], { [objectId(1, 2)]: 'large' })
    expect(first).toContainEqual({ do: 'fetch', content: expect.objectContaining({ path: contentPath(1, 2) }) })
    expect(kinds(follow(map, [hello(), begin(), ...listed, end(listed)]))).toEqual(['ignored', 'verified'])
  })
})

describe('another history', () => {
  test('the old map stays until the new list is proven, then the new one counts, lower revs included', () => {
    const map = mapOf(put(1, 9), put(2, 9), put(3, 9))
    const listed = [put(1, 4), put(2, 9)]
    const connection = new Connection(map)
    const frames = [hello({ epoch: epochs[1], reason: 'epoch' }), begin(), ...listed]
    const before = frames.flatMap((frame) => connection.take(frame))
    expect(looks(before)).toEqual([])
    expect(running(map)).toMatchObject({ 'stack-1': '9 a: 9' })
    const after = connection.take(end(listed, { cursor: 'new' }))
    expect(looks(after)).toEqual([1])
    expect(running(map)).toEqual({ 'stack-1': '4 a: 4', 'stack-2': '9 a: 9' })
    expect([map.epoch, map.cursor, leaving(map)]).toEqual([epochs[1], 'new', { 3: 'absent undecided' }])
  })

  test('an unproven list of another history changes nothing at all', () => {
    const map = mapOf(put(1, 9))
    follow(map, [hello({ epoch: epochs[1] }), begin(), put(1, 4), end([put(1, 5)])])
    expect([running(map), map.epoch, map.cursor]).toEqual([{ 'stack-1': '9 a: 9' }, epochs[0], 'after-list'])
  })

  test('without a cursor to show, another boot of the database server may be another history: lower revs count, and what is left out is told as unproven', () => {
    const [first, second] = ['b0070000-0000-4000-8000-000000000001', 'b0070000-0000-4000-8000-000000000002']
    const listed = [put(1, 4)]
    const list = (boot: string | undefined, hasShown: boolean) => {
      const map = new WantedMap()
      const all = [put(1, 9), put(2, 9)]
      follow(map, [hello({ boot: first }), begin(), ...all, end(all)])
      const told = follow(map, [hello({ boot }), begin(), ...listed, end(listed)], {}, hasShown).find((effect) => effect.do === 'verified')
      return [running(map)['stack-1'], told?.list.isNewHistory, map.boot]
    }
    expect(list(second, false)).toEqual(['4 a: 4', true, second])
    // The broker has looked at the cursor, and found it to be one of its own.
    expect(list(second, true)).toEqual(['9 a: 9', false, second])
    expect(list(first, false)).toEqual(['9 a: 9', false, first])
    // Brokers that do not say.
    expect(list(undefined, false)).toEqual(['9 a: 9', false, null])
  })

  test('a map that is doubted is replaced whole, and a new epoch that comes with it is still told as a new history', () => {
    const told = [epochs[0], epochs[1]].map((epoch) => {
      const map = mapOf(put(1, 9), put(2, 9))
      map.isDoubted = true
      const effects = follow(map, [hello({ epoch, reason: 'digest' }), begin(), put(1, 4), end([put(1, 4)])], {}, true)
      const verified = effects.find((effect) => effect.do === 'verified')
      return [running(map)['stack-1'], verified?.list.isNewHistory, map.isDoubted]
    })
    expect(told).toEqual([
      ['4 a: 4', false, false],
      ['4 a: 4', true, false],
    ])
  })

  test('a resumed stream takes the boot along, a cursor that was given up is still shown', () => {
    const map = mapOf(put(1, 9))
    follow(map, [hello({ mode: 'resume', boot: 'b0070000-0000-4000-8000-000000000002' }), bookmark('newest')], {}, true)
    map.cursor = null
    expect([map.boot, map.seen]).toEqual(['b0070000-0000-4000-8000-000000000002', 'newest'])
  })

  test('a removal that was decided before goes on', () => {
    const map = mapOf(put(1, 9), put(2, 9))
    follow(map, [hello({ mode: 'resume' }), del(2, 9)])
    const listed = [put(1, 1)]
    follow(map, [hello({ epoch: epochs[1] }), begin(), ...listed, end(listed)])
    expect(map.levels.level(stackId(2)).do).toBe('remove')
  })
})

test.each([
  ['a frame before hello', [put(1, 1)]],
  ['another protocol', [hello({ protocol: 2 })]],
  ['a second hello', [hello(), hello()]],
  ['a resume in another epoch', [hello({ mode: 'resume', epoch: epochs[1] })]],
  ['the end of a list that never began', [hello(), end([])]],
  ['the end of another list', [hello(), begin(), end([], { id: '9a410000-0000-4000-8000-000000000009' })]],
  ['two ends of one list', [hello(), begin(), putByUrl(1, 1, 'x'), end([putByUrl(1, 1, 'x')]), end([])]],
  ['content that does not have its checksum', [hello(), put(1, 1, 'a', { object: { ...put(1, 1, 'a').object!, yaml_content: 'b' } })]],
  ['a put without content', [hello(), put(1, 1, 'a', { object: { ...put(1, 1, 'a').object!, yaml_content: undefined } })]],
  [
    'content at a strange address',
    [hello(), put(1, 1, 'a', { object: { ...putByUrl(1, 1, 'a').object!, content_url: '//evil.example/x' } })],
  ],
])('%s breaks the stream and leaves map and cursor as they were', (_what, frames) => {
  const map = mapOf(put(5, 1))
  const before = [running(map), map.cursor, map.epoch]
  expect(() => follow(map, frames as Frame[])).toThrow(BrokenFrame)
  expect([running(map), map.cursor, map.epoch]).toEqual(before)
})
