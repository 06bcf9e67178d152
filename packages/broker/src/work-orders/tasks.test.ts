import type { Sql } from '@brokkr/postgres'
import { systemClock as clock } from '@brokkr/runtime/clock.ts'
import { expect, test } from 'vitest'
import { freshSubscriptions } from '../webhooks/subscriptions/subscription-cache.ts'
import { workOrderMaintenance } from './tasks.ts'

const noSql: Sql = { query: () => Promise.reject(new Error('no database')), begin: () => Promise.reject(new Error('no database')) }

test.each([
  [10, 10_000],
  [0.2, 200],
  // Claims that end in a minute or later are announced to no process: a run before their end must find them.
  [600, 50_000],
])('an interval of %s s lets the maintenance wait at most %s ms', (everySeconds, expected) => {
  const settings = { everyMs: () => everySeconds * 1000, retentionDays: () => 365 }
  const task = workOrderMaintenance({ sql: noSql, clock, subscriptionCache: freshSubscriptions(), wakeFeed: () => undefined }, settings)
  expect(typeof task.everyMs === 'function' ? task.everyMs() : task.everyMs).toBe(expected)
})
