import { manualClock } from '@brokkr/testing/clock.ts'
import { expect, test } from 'vitest'
import type { Principal } from '../server/handler.ts'
import { createCredentialCache } from './credential-cache.ts'

const principal = (id: string, endsAtMs: number | null = null): Principal => ({
  kind: 'admin',
  id,
  name: id,
  readonly: false,
  scope: null,
  endsAtMs,
  isActive: true,
  session: null,
  pakHash: null,
})

function setup(options: { ttlMs?: number; entriesMax?: number } = {}) {
  const clock = manualClock()
  const cache = createCredentialCache(
    { clock },
    { ttlMs: () => options.ttlMs ?? 60_000, ...(options.entriesMax === undefined ? {} : { entriesMax: options.entriesMax }) },
  )
  return { clock, cache }
}

test('an entry lives for its time and no longer', async () => {
  const { clock, cache } = setup()
  cache.set('h', principal('a'), cache.generation)
  await clock.advance(59_999)
  expect(cache.get('h')?.id).toBe('a')
  await clock.advance(1)
  expect(cache.get('h')).toBeUndefined()
  expect(cache.size).toBe(0)
})

test('an entry ends with its credential, before its time', async () => {
  const { clock, cache } = setup()
  cache.set('h', principal('a', clock.monotonicMs() + 1_000), cache.generation)
  await clock.advance(999)
  expect(cache.get('h')).toBeDefined()
  await clock.advance(1)
  expect(cache.get('h')).toBeUndefined()
})

test('a cache lifetime of zero caches no credential', () => {
  const { cache } = setup({ ttlMs: 0 })
  cache.set('h', principal('a'), cache.generation)
  expect(cache.size).toBe(0)
})

test('dropping a credential removes all its cache entries and no others', () => {
  const { cache } = setup()
  for (const [hash, id] of [
    ['h1', 'a'],
    ['h2', 'a'],
    ['h3', 'b'],
  ] as const)
    cache.set(hash, principal(id), cache.generation)
  cache.drop('admin', 'a')
  expect([cache.get('h1'), cache.get('h2'), cache.get('h3')?.id]).toEqual([undefined, undefined, 'b'])
  cache.drop('agent', 'b')
  expect(cache.get('h3')?.id).toBe('b')
})

test('a lookup that began before a revocation is not cached', () => {
  const { cache } = setup()
  const before = cache.generation
  cache.drop('admin', 'a')
  cache.set('h', principal('a'), before)
  expect(cache.get('h')).toBeUndefined()
})

test('the credential cache is bounded and removes evicted entries completely', () => {
  const { cache } = setup({ entriesMax: 10 })
  for (let n = 0; n < 1_000; n += 1) cache.set(`h${n}`, principal(`p${n}`), cache.generation)
  expect(cache.size).toBe(10)
  cache.drop('admin', 'p0')
  expect(cache.size).toBe(10)
  cache.clear()
  expect(cache.size).toBe(0)
})

test('a session is forgotten with itself, with its identity, and at an end of its own', async () => {
  const clock = manualClock()
  const cache = createCredentialCache({ clock }, { ttlMs: () => 60_000 })
  const inSession = { ...principal('a'), session: 's' }
  const put = (untilMs?: number) => cache.set('h', inSession, cache.generation, untilMs)
  put()
  cache.drop('session', 'other')
  put()
  expect(cache.get('h')).toBe(inSession)
  cache.drop('session', 's')
  expect(cache.get('h')).toBeUndefined()
  put()
  cache.drop('admin', 'a')
  expect(cache.get('h')).toBeUndefined()
  put(clock.monotonicMs() + 1000)
  await clock.advance(1000)
  expect(cache.get('h')).toBeUndefined()
})
