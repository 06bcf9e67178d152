import { type Database, openDatabase } from '@brokkr/postgres'
import { systemClock } from '@brokkr/runtime/clock.ts'
import { silentLog } from '@brokkr/runtime/logging/log.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { database, type TestDatabase } from '@brokkr/testing/servers/postgres.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { beforeAll, expect, onTestFinished, test } from 'vitest'
import { type RunningTasks, startTasks } from './run-tasks.ts'
import * as taskLeases from './store.ts'
import type { Task } from './task.ts'

let db: TestDatabase
let sql: Database
beforeAll(async () => {
  db = await database()
  sql = openDatabase({ url: db.url, schema: 'public', poolSize: 12 })
  return () => sql.close()
})
function start(owner: string, ...tasks: Task[]): RunningTasks {
  const running = startTasks({ sql, clock: systemClock, log: silentLog, metrics: createMetrics(), owner, isAway: () => false }, tasks)
  onTestFinished(() => running.stop())
  return running
}
const rowOf = async (name: string) => (await taskLeases.list(sql, {})).find((row) => row.name === name)
const change = async (text: string) => {
  const client = await db.connect()
  await client.query(text)
  await client.end()
}

test('one process runs a task per interval and stores its result', async () => {
  const runs: { owner: string; atMs: number }[] = []
  let active = 0
  let overlaps = 0
  const task = (owner: string): Task => ({
    name: 'shared',
    everyMs: () => 300,
    run: async () => {
      overlaps += active
      active += 1
      runs.push({ owner, atMs: performance.now() })
      await systemClock.sleep(50)
      active -= 1
      return { rows: runs.length }
    },
  })
  for (const owner of ['a', 'b', 'c', 'd']) start(owner, task(owner))
  await waitFor('six runs', () => runs.length >= 6)
  expect(overlaps).toBe(0)
  // Four processes tick; without the lease there would be four runs in each interval.
  const gaps = runs.slice(1).map(({ atMs }, index) => atMs - runs[index]!.atMs)
  expect(Math.min(...gaps)).toBeGreaterThan(300 * 0.8 * 0.8)
  await waitFor('the record', async () => ((await rowOf('shared'))?.last_result?.['rows'] ?? 0) > 0)
  expect(await rowOf('shared')).toMatchObject({ last_error: null, last_run_at: expect.any(String) as string })
})

test('a task for every process runs in every one', async () => {
  const seen = new Set<string>()
  const task = (owner: string): Task => ({
    name: 'everywhere',
    everyMs: () => 50,
    isEverywhere: true,
    run: async () => ({ rows: seen.add(owner).size }),
  })
  for (const owner of ['a', 'b', 'c']) start(owner, task(owner))
  await waitFor('all three', () => seen.size === 3)
})

test('a failed run is logged and repeated at the next interval', async () => {
  let runs = 0
  const run = async () => {
    runs += 1
    if (runs === 1) throw new Error('no luck')
    return { runs }
  }
  let fails: unknown = null
  start('a', { name: 'flaky', everyMs: () => 100, run })
  await waitFor('the failure', async () => {
    const row = await rowOf('flaky')
    fails ??= row?.last_error ?? null
    return row?.last_result?.['runs'] !== undefined
  })
  expect([fails, (await rowOf('flaky'))?.last_error]).toEqual(['no luck', null])
})

test('a task of a killed process is taken over when its lease expires', async () => {
  let runs = 0
  await taskLeases.take(sql, { name: 'left', owner: 'killed', lease_seconds: 600, due_after_seconds: 0 })
  start('b', { name: 'left', everyMs: () => 50, run: async () => ({ runs: (runs += 1) }) })
  const other = start('b', { name: 'free', everyMs: () => 50, run: async () => ({ n: 1 }) })
  await waitFor(
    'another task runs meanwhile',
    async () => (await rowOf('free'))?.last_result !== null && (await rowOf('free')) !== undefined,
  )
  expect([runs, (await rowOf('left'))?.lease_owner]).toEqual([0, 'killed'])
  await change(`update task_leases set lease_until = now() - interval '1 second' where name = 'left'`)
  await waitFor('taken over', () => runs > 0)
  await other.stop()
})

test('a lost lease aborts the run, and a stopping process releases its lease', async () => {
  const begun = Promise.withResolvers<void>()
  const ended = Promise.withResolvers<string>()
  const running = start('a', {
    name: 'long',
    everyMs: () => 20,
    run: async (signal) => {
      begun.resolve()
      await systemClock.sleep(60_000, signal).catch(() => undefined)
      ended.resolve(String(signal.aborted))
      throw new Error('cut short')
    },
  })
  await begun.promise
  await running.stop()
  expect(await ended.promise).toBe('true')
  expect(await rowOf('long')).toMatchObject({ last_run_at: null, last_error: null, lease_owner: null })
  expect(await taskLeases.take(sql, { name: 'long', owner: 'b', lease_seconds: 60, due_after_seconds: 3600 })).toEqual({ name: 'long' })
  expect(await taskLeases.renew(sql, { name: 'long', owner: 'a', lease_seconds: 60 })).toBe(0)
})

test('a task is due by its last run across processes and restarts', async () => {
  const take = (owner: string) => taskLeases.take(sql, { name: 'daily', owner, lease_seconds: 60, due_after_seconds: 3600 })
  const done = (owner: string) => taskLeases.finish(sql, { name: 'daily', owner, ran_seconds: 1, result: '{}', error: null })
  expect(await take('a')).not.toBeNull()
  expect(await take('b')).toBeNull()
  await done('a')
  expect(await take('b')).toBeNull()
  await change(`update task_leases set last_run_at = now() - interval '2 hours' where name = 'daily'`)
  expect(await take('b')).not.toBeNull()
})
