import { expect, test } from 'vitest'
import { type CorsSettings, corsHeaders } from './cors.ts'
import { call, startTestServer } from './server.fixture.ts'

const settings: CorsSettings = {
  allowed_origins: ['https://a.test', 'https://b.test:8443'],
  allowed_methods: ['GET', 'POST', 'PATCH'],
  allowed_headers: ['Authorization', 'Content-Type'],
  max_age_seconds: 3600,
}
const preflight = { 'access-control-request-method': 'PATCH', 'access-control-request-headers': 'authorization' }

test('CORS is disabled by default', () => {
  const none = { ...settings, allowed_origins: [] }
  for (const origin of ['https://a.test', 'null', '*', ''])
    expect(corsHeaders(none, { method: 'OPTIONS', headers: { origin, ...preflight } })).toEqual({})
})

test('only a configured origin may read responses', () => {
  const of = (origin?: string) => corsHeaders(settings, { method: 'GET', headers: { origin } })
  expect(of('https://b.test:8443')).toMatchObject({ 'access-control-allow-origin': 'https://b.test:8443', vary: 'origin' })
  for (const other of [
    'https://b.test',
    'http://a.test',
    'https://a.test.evil.test',
    'https://sub.a.test',
    'null',
    'HTTPS://A.TEST',
    undefined,
  ])
    expect(of(other)).toEqual({ vary: 'origin' })
})

test('a preflight returns methods, headers and max age without credentials', () => {
  const headers = corsHeaders(settings, { method: 'OPTIONS', headers: { origin: 'https://a.test', ...preflight } })
  expect(headers).toEqual({
    vary: 'origin',
    'access-control-allow-origin': 'https://a.test',
    'access-control-allow-methods': 'GET, POST, PATCH',
    'access-control-allow-headers': 'Authorization, Content-Type',
    'access-control-max-age': '3600',
  })
})

test('a star is every origin', () => {
  expect(corsHeaders({ ...settings, allowed_origins: ['*'] }, { method: 'GET', headers: { origin: 'https://x.test' } })).toMatchObject({
    'access-control-allow-origin': '*',
  })
})

test('a configured origin is named on responses, errors, preflights and compressed responses', async () => {
  const server = await startTestServer({ cors: () => settings })
  try {
    const origin = 'https://a.test'
    const answer = await call(server, 'listAgents', { headers: { origin, 'accept-encoding': 'gzip' } })
    expect([answer.status, answer.headers.get('access-control-allow-origin')]).toEqual([200, origin])
    expect(answer.headers.get('vary')?.split(', ')).toContain('origin')
    const refused = await call(server, 'listAgents', { pak: null, headers: { origin } })
    expect([refused.status, refused.headers.get('access-control-allow-origin')]).toEqual([401, origin])
    const options = await fetch(`${server.url}/api/v1/agents`, { method: 'OPTIONS', headers: { origin, ...preflight } })
    expect([options.status, options.headers.get('access-control-allow-methods'), options.headers.get('allow')]).toEqual([
      200,
      'GET, POST, PATCH',
      'GET, HEAD, POST',
    ])
    const stranger = await call(server, 'listAgents', { headers: { origin: 'https://evil.test' } })
    expect([...stranger.headers].filter(([name]) => name.startsWith('access-control'))).toEqual([])
  } finally {
    await server.close()
  }
})
