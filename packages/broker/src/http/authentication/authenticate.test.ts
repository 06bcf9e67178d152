// Who is calling: by header, by cache, by look-up; and what guessing costs.
import { systemClock } from '@brokkr/runtime/clock.ts'
import { createMetrics } from '@brokkr/runtime/metrics/metrics.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { call, credentials, hashOf, ids, paks, startTestServer, type TestServer, unknownPak } from '../server/server.fixture.ts'
import { type AuthFailure, type CredentialRow, createAuthenticator } from './authenticate.ts'

function setup(options: { ttlMs?: number; trusted?: () => boolean; lookup?: (hash: string) => Promise<CredentialRow | null> } = {}) {
  const rows = credentials()
  const asked: string[] = []
  const failures: AuthFailure[] = []
  const lookup = options.lookup ?? (async (hash: string) => rows.find((row) => row.pak_hash === hash) ?? null)
  const authenticator = createAuthenticator(
    {
      clock: systemClock,
      metrics: createMetrics(),
      lookupCredential: (hash) => {
        asked.push(hash)
        return lookup(hash)
      },
      trusted: options.trusted ?? (() => true),
      onAuthFailure: (failure) => void failures.push(failure),
    },
    { cacheTtlMs: () => options.ttlMs ?? 60_000 },
  )
  const as = (headers: Record<string, string>, query = '') =>
    authenticator.authenticate({ headers, query, path: '/api/v1/agents', requestId: 'r', clientAddress: '192.0.2.1', userAgent: 'probe' })
  return { authenticator, as, asked, failures, rows }
}
const bearer = (pak: string) => ({ authorization: `Bearer ${pak}` })

test('the principal has the fields of its credential row', async () => {
  const { as, asked } = setup()
  expect(await as(bearer(paks.reader))).toEqual({
    kind: 'admin',
    id: '00000000-0000-4000-8000-000000000011',
    name: 'BRreader',
    readonly: true,
    scope: null,
    endsAtMs: null,
    isActive: true,
    session: null,
    pakHash: hashOf(paks.reader),
  })
  expect(asked).toEqual([hashOf(paks.reader)])
})

test('a cached PAK needs no lookup', async () => {
  const { as, asked } = setup()
  await as(bearer(paks.admin))
  await as(bearer(paks.admin))
  expect(asked).toHaveLength(1)
})

test('a dropped credential is asked for again', async () => {
  const { as, asked, authenticator, rows } = setup()
  await as(bearer(paks.itself))
  rows.splice(
    rows.findIndex((row) => row.id === ids.itself),
    1,
  )
  await as(bearer(paks.itself))
  authenticator.dropCredential('agent', ids.itself)
  await expect(as(bearer(paks.itself))).rejects.toMatchObject({ code: 'unauthorized' })
  expect(asked).toHaveLength(2)
})

test('an untrusted feed makes every call use a lookup', async () => {
  let isTrusted = true
  const { as, asked } = setup({ trusted: () => isTrusted })
  await as(bearer(paks.admin))
  isTrusted = false
  await as(bearer(paks.admin))
  await as(bearer(paks.admin))
  expect(asked).toHaveLength(3)
})

test('a PAK revoked during its lookup is not cached', async () => {
  const answer = Promise.withResolvers<CredentialRow | null>()
  const { as, asked, authenticator, rows } = setup({ lookup: () => answer.promise })
  const first = as(bearer(paks.itself))
  authenticator.dropCredential('agent', ids.itself)
  answer.resolve(rows.find((row) => row.id === ids.itself) ?? null)
  await first
  await as(bearer(paks.itself))
  expect(asked).toHaveLength(2)
})

test.each([
  ['a key nobody has', bearer(unknownPak), 'refused', 'BRnobody'],
  ['an expired key', bearer(paks.expired), 'refused', 'BRexpire'],
  ['an admin key as generator key', { 'x-generator-key': paks.admin }, 'refused', 'BRadmin1'],
  ['no key', {}, 'missing', null],
  ['something that is no key', { authorization: 'Bearer x' }, 'malformed', null],
])('%s is refused and told to the audit without the key', async (_, headers, reason, shortToken) => {
  const { as, failures } = setup()
  await expect(as(headers as Record<string, string>)).rejects.toMatchObject({ code: 'unauthorized', status: 401 })
  expect(failures).toEqual([
    { reason, shortToken, path: '/api/v1/agents', isLimited: false, requestId: 'r', clientAddress: '192.0.2.1', userAgent: 'probe' },
  ])
})

test('[X19] unknown and wrong PAKs use the same single lookup', async () => {
  const { as, asked } = setup()
  const wrong = `${paks.admin.slice(0, -1)}z`
  for (const pak of [unknownPak, wrong]) await expect(as(bearer(pak))).rejects.toMatchObject({ code: 'unauthorized' })
  expect(asked).toEqual([hashOf(unknownPak), hashOf(wrong)])
})

test('a row with another hash is not accepted', async () => {
  const { as } = setup({ lookup: async () => credentials()[0] ?? null })
  await expect(as(bearer(paks.owner))).rejects.toMatchObject({ code: 'unauthorized' })
})

test('a generator PAK authenticates as generator', async () => {
  expect((await setup().as({ 'x-generator-key': paks.owner })).id).toBe(ids.owner)
})

describe('over HTTP', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer({ failures: { burst: 50, perSecond: 0.001 } })
  })
  afterAll(() => server.close())

  test('unknown, wrong, expired, malformed and missing PAKs get the same response', async () => {
    const wrong = `${paks.admin.slice(0, -1)}z`
    const answers = await Promise.all(
      [unknownPak, wrong, paks.expired, 'x', null].map(async (pak) => {
        const { status, text, headers } = await call(server, 'listAgents', { pak })
        const { date: _, 'x-request-id': __, ...rest } = Object.fromEntries(headers)
        return { status, text, rest }
      }),
    )
    expect(answers[0]).toMatchObject({ status: 401, text: '', rest: { 'www-authenticate': 'Bearer', 'content-length': '0' } })
    for (const answer of answers) expect(answer).toEqual(answers[0])
  })

  test('a PAK in the query is audited and does not authenticate', async () => {
    const path = `/api/v1/agents?pak=${paks.admin}`
    expect((await call(server, 'listAgents', { pak: null, path })).status).toBe(401)
    expect(server.failures.at(-1)).toMatchObject({ reason: 'credential_in_url', path: '/api/v1/agents' })
    const before = server.failures.length
    expect((await call(server, 'listAgents', { pak: paks.admin, path })).status).toBe(200)
    expect(server.failures.slice(before)).toMatchObject([{ reason: 'credential_in_url', isLimited: false }])
  })

  test('failures beyond the limit must wait, and a valid PAK from the same address is accepted', async () => {
    const statuses: number[] = []
    for (let n = 0; n < 60; n += 1) statuses.push((await call(server, 'listAgents', { pak: unknownPak })).status)
    expect(new Set(statuses)).toEqual(new Set([401, 429]))
    const limited = await call(server, 'listAgents', { pak: unknownPak })
    expect([limited.status, limited.json?.code, limited.headers.get('retry-after')]).toEqual([
      429,
      'rate_limited',
      expect.stringMatching(/^[1-9]\d*$/),
    ])
    expect(server.failures.at(-1)).toMatchObject({ isLimited: true })
    expect((await call(server, 'listAgents', { pak: paks.admin })).status).toBe(200)
  })
})

test('the address is the peer, or the last hop before a proxy we trust', async () => {
  const forwarded = { 'x-forwarded-for': '203.0.113.7, 198.51.100.9' }
  const addressSeen = async (trustedProxies: string[], headers: Record<string, string>) => {
    const server = await startTestServer({ trustedProxies })
    try {
      await call(server, 'listAgents', { pak: null, headers })
      return server.failures.at(-1)?.clientAddress
    } finally {
      await server.close()
    }
  }
  expect(await addressSeen([], forwarded)).toBe('127.0.0.1')
  expect(await addressSeen(['127.0.0.1/32'], forwarded)).toBe('198.51.100.9')
  expect(await addressSeen(['127.0.0.1/32', '198.51.100.0/24'], forwarded)).toBe('203.0.113.7')
  expect(await addressSeen(['127.0.0.1/32'], { 'x-forwarded-for': 'not an address' })).toBe('127.0.0.1')
})
