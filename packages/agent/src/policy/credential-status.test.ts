import { silentLog as log } from '@brokkr/runtime/logging/log.ts'
import { manualClock } from '@brokkr/testing/clock.ts'
import { describe, expect, test } from 'vitest'
import { CredentialStatus, toCredentialSignal } from './credential-status.ts'
import { toRefusalCode, WritePermit, WriteRefused, withWritePermit } from './write-permit.ts'

const stream = '/api/v1/agents/a/stream'
const json = 'application/json'

test.each([
  ['a good heartbeat', 'POST', '/api/v1/agents/a/heartbeat', 204, null, 'accepted'],
  ['an unchanged list', 'GET', '/api/v1/agents/a/target-state', 304, null, 'accepted'],
  ['a stream', 'GET', stream, 200, 'application/x-ndjson', 'accepted'],
  ['an accepted PAK', 'POST', '/api/v1/auth/pak', 200, json, 'accepted'],
  ['a page in place of a stream', 'GET', stream, 200, 'text/html', 'nothing'],
  ['a response of unknown type', 'GET', stream, 200, null, 'nothing'],
  ['a rejected PAK', 'POST', '/api/v1/agents/a/events/batch', 401, json, 'refused'],
  ['a rejected PAK without a body', 'GET', stream, 401, null, 'refused'],
  ['a rejected join token', 'POST', '/api/v1/join', 401, null, 'nothing'],
  ['another agent’s record', 'GET', stream, 403, json, 'refused'],
  ['a page of somebody in front', 'GET', stream, 403, 'text/html', 'nothing'],
  ['a generator that does not have us', 'POST', '/api/v1/generators/g/register', 403, json, 'nothing'],
  ['an old release', 'POST', '/api/v1/agents/a/heartbeat', 426, json, 'outdated'],
  ['a broker in trouble', 'POST', '/api/v1/agents/a/heartbeat', 503, json, 'nothing'],
  ['nobody there', 'GET', stream, 404, 'text/html', 'nothing'],
] as const)('%s', (_what, method, path, status, contentType, meaning) => {
  expect(toCredentialSignal({ method, path, status, contentType })).toBe(meaning)
})

describe('a rejected PAK', () => {
  const vouching = () => {
    const clock = manualClock()
    const vouch = new CredentialStatus({ clock, log }, { frozenAfterMs: () => 300_000 })
    let changes = 0
    vouch.onChange(() => (changes += 1))
    const answer = (status: number) =>
      vouch.recordResponse({ method: 'POST', path: '/api/v1/agents/a/heartbeat', status, contentType: json })
    return { clock, vouch, answer, changes: () => changes }
  }

  test('freezes the agent after frozen_after_seconds, and a success resumes writes', async () => {
    const { clock, vouch, answer, changes } = vouching()
    answer(401)
    await clock.advance(299_000)
    answer(401)
    expect(vouch.isFrozen).toBe(false)
    await clock.advance(1_000)
    answer(401)
    expect([vouch.isFrozen, changes()]).toEqual([true, 1])
    answer(200)
    expect([vouch.isFrozen, vouch.isRefused, changes()]).toEqual([false, false, 2])
  })

  test('once before a long silence of the broker does not freeze the agent', async () => {
    const { clock, vouch, answer } = vouching()
    answer(401)
    await clock.advance(86_400_000)
    for (const status of [500, 502, 404]) answer(status)
    expect(vouch.isFrozen).toBe(false)
  })

  test('with a success in between restarts the period', async () => {
    const { clock, vouch, answer } = vouching()
    answer(403)
    await clock.advance(200_000)
    answer(200)
    answer(401)
    await clock.advance(200_000)
    answer(401)
    expect(vouch.isFrozen).toBe(false)
  })

  test('an outdated agent may apply but not delete', () => {
    const { vouch, answer } = vouching()
    const permit = new WritePermit(() => ({
      isHolder: true,
      isFrozen: vouch.isFrozen,
      isOutdated: vouch.isOutdated,
      isObserver: false,
      status: 'ACTIVE',
    }))
    answer(426)
    expect(() => permit.assertWrite()).not.toThrow()
    expect(() => permit.assertDelete()).toThrow(WriteRefused)
    answer(200)
    expect(() => permit.assertDelete()).not.toThrow()
  })
})

test.each([
  [{}, null],
  [{ isHolder: false, isFrozen: true }, 'standby'],
  [{ isFrozen: true, status: 'INACTIVE' }, 'frozen'],
  [{ status: 'INACTIVE' }, 'paused'],
  [{ status: 'anything' }, 'paused'],
  [{ isOutdated: true }, null],
  [{ isObserver: true }, 'observe'],
  [{ isObserver: true, isHolder: false }, 'standby'],
])('%j is answered with %s', (change, expected) => {
  expect(toRefusalCode({ isHolder: true, isFrozen: false, isOutdated: false, isObserver: false, status: 'ACTIVE', ...change })).toBe(
    expected,
  )
})

test('every write method of the client is guarded, also in derived clients; reads are not', async () => {
  const guards: string[] = []
  const call =
    (name: string, at: number) =>
    (...given: { guard?: () => void }[]) => {
      given[at]?.guard?.()
      guards.push(name)
      return Promise.resolve(undefined)
    }
  const kube = {
    ...Object.fromEntries(['create', 'replace', 'apply', 'delete', 'get'].map((name) => [name, call(name, 1)])),
    patch: call('patch', 2),
    with: () => kube,
  } as never
  const refusing = withWritePermit(
    kube,
    new WritePermit(() => ({ isHolder: false, isFrozen: false, isOutdated: false, isObserver: false, status: 'ACTIVE' })),
  )
  for (const client of [refusing, refusing.with({})]) {
    expect(() => client.create({} as never)).toThrow(WriteRefused)
    expect(() => client.replace({} as never)).toThrow(WriteRefused)
    expect(() => client.patch({} as never, {} as never)).toThrow(WriteRefused)
    expect(() => client.apply({} as never, {} as never)).toThrow(WriteRefused)
    expect(() => client.delete({} as never)).toThrow(WriteRefused)
    await client.get({} as never)
  }
  expect(guards).toEqual(['get', 'get'])
})
