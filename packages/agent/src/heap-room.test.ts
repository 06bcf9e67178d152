import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import { HeapRoom } from './heap-room.ts'

function room() {
  const clock = manualClock()
  const told: string[] = []
  const heap = { mayGrow: () => void told.push('may grow'), staysSmall: () => void told.push('stays small') }
  const state = { depth: 0 }
  return { clock, told, state, room: new HeapRoom({ clock, heap }, () => state.depth) }
}

test('a few stacks are applied in the heap that is there', async () => {
  const { clock, told, state, room: looked } = room()
  state.depth = 9
  looked.look()
  await clock.advance(60_000)
  expect(told).toEqual([])
})

test('for many it grows once, and is given back when few of them are left', async () => {
  const { clock, told, state, room: looked } = room()
  state.depth = 10
  looked.look()
  state.depth = 100
  looked.look()
  await clock.advance(10_000)
  expect(told).toEqual(['may grow'])
  state.depth = 9
  await clock.advance(1_000)
  expect(told).toEqual(['may grow', 'stays small'])
  state.depth = 10
  looked.look()
  expect(told).toEqual(['may grow', 'stays small', 'may grow'])
  looked.stop()
  await clock.advance(10_000)
  expect(told).toHaveLength(3)
})

test('after a look at everything what it left behind is given back', async () => {
  const { clock, told, state, room: looked } = room()
  state.depth = 100
  looked.tidy()
  await clock.advance(3_000)
  expect(told).toEqual([])
  state.depth = 0
  await clock.advance(1_000)
  expect(told).toEqual(['stays small'])
})

test('news that come meanwhile still have their room', () => {
  const { told, state, room: looked } = room()
  state.depth = 100
  looked.tidy()
  looked.look()
  expect(told).toEqual(['may grow'])
})

test('the young generation of a process grows only while it may, and goes back to its first size', async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--max-semi-space-size=4', '--input-type=module', '--eval', program], {
    cwd: import.meta.dirname,
  })
  const { start, small, grown, back } = JSON.parse(stdout) as Record<'start' | 'small' | 'grown' | 'back', number>
  expect(grown).toBe(2 * 4)
  expect(small).toBeLessThan(grown)
  expect(back).toBe(start)
})

/** Tells how many MiB there are for new objects before, during and after work of which much stays for a while. */
const program = `
import { getHeapSpaceStatistics } from 'node:v8'
import { ownHeap } from './heap-room.ts'
const mib = () => getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space').space_size / 1024 / 1024
let kept = []
const work = () => { for (let n = 0; n < 3_000_000; n++) kept[n % 20_000] = { n, text: 'n' + n } }
const heap = ownHeap()
const start = mib()
work()
const small = mib()
heap.mayGrow()
work()
const grown = mib()
kept = []
heap.staysSmall()
process.stdout.write(JSON.stringify({ start, small, grown, back: mib() }))
`
