// What a cookie opens, and what a foreign page, a proxy or a twisted head gets out of it.
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { askRaw, statusLines } from '../server/raw-http.fixture.ts'
import { call, sessionHeaders, startTestServer, type TestServer } from '../server/server.fixture.ts'
import { checkOrigin, sessionCookie } from './session-cookie.ts'

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())

const opensBy = (name: EndpointName) => (endpoints[name] as Endpoint).credential ?? 'key or session'
const mutations = (Object.keys(endpoints) as EndpointName[]).filter(
  (name) => endpoints[name].method !== 'GET' && opensBy(name) === 'key or session',
)
const byCookie = (name: EndpointName, headers: Record<string, string | undefined>) => {
  const all = Object.entries({ ...sessionHeaders(server), ...headers }).filter((entry): entry is [string, string] => entry[1] !== undefined)
  return call(server, name, { pak: null, headers: Object.fromEntries(all) })
}

test.each(mutations)('[X29] %s by cookie from anywhere but the console itself is refused and audited', async (name) => {
  const { port, host } = new URL(server.url)
  const foreign: Record<string, Record<string, string | undefined>> = {
    'no origin': { origin: undefined },
    'a sandboxed page': { origin: 'null' },
    'another host': { origin: 'https://example.org' },
    'a sub-domain': { origin: `http://evil.${host}` },
    'another port': { origin: `http://127.0.0.1:${Number(port) + 1}` },
    'another scheme': { origin: `https://${host}` },
    'the host as a prefix': { origin: `${server.url}.example.org` },
    'no header of the console': { 'x-brokkr-console': undefined },
    'another value of it': { 'x-brokkr-console': '0' },
  }
  for (const [what, headers] of Object.entries(foreign)) {
    const before = { reached: server.reached.length, denied: server.denied.length }
    const { status, json } = await byCookie(name, headers)
    expect([what, status, json?.code]).toEqual([what, 403, 'origin_refused'])
    expect([server.reached.length, server.denied.slice(before.denied).map(({ code }) => code)]).toEqual([
      before.reached,
      ['origin_refused'],
    ])
  }
})

test('[X29] same-origin requests are accepted, and reads need no Origin header', async () => {
  expect((await byCookie('createGenerator', {})).status).toBe(201)
  expect((await byCookie('listStacks', { origin: undefined, 'x-brokkr-console': undefined })).status).toBe(200)
})

test('[X29] the join endpoint accepts no cookie', async () => {
  for (const name of (Object.keys(endpoints) as EndpointName[]).filter((one) => opensBy(one) === 'join'))
    expect([name, (await byCookie(name, {})).status]).toEqual([name, 401])
})

test('[X29] conflicting Content-Length and Transfer-Encoding return 400', async () => {
  const port = Number(new URL(server.url).port)
  const head = 'POST /api/v1/auth/pak HTTP/1.1\r\nHost: x\r\n'
  const body = '0\r\n\r\n'
  for (const twisted of [
    'Content-Length: 5\r\nContent-Length: 6\r\n',
    'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n',
    'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n',
  ]) {
    const lines = statusLines(await askRaw(port, `${head}${twisted}\r\n${body}`))
    expect([twisted, lines]).toEqual([twisted, ['HTTP/1.1 400']])
  }
})

test('[X29] X-Forwarded-For of an untrusted client is not audited', async () => {
  await call(server, 'listStacks', { pak: 'brokkr_BRnobody_xxxxxxxxxxxxxxxxxxxxxxxx', headers: { 'x-forwarded-for': '203.0.113.9' } })
  expect(server.failures.at(-1)?.clientAddress).toBe('127.0.0.1')
  await call(server, 'createGenerator', {
    pak: null,
    headers: { ...sessionHeaders(server), origin: 'null', 'x-forwarded-for': '203.0.113.9' },
  })
  expect(server.denied.at(-1)?.clientAddress).toBe('127.0.0.1')
})

test('[X29] the session cookie has the __Host- prefix with TLS and is HttpOnly', () => {
  expect(sessionCookie({ isTls: true }).set('t', 60.9)).toBe(
    '__Host-brokkr_session=t; Max-Age=60; Path=/; HttpOnly; SameSite=Strict; Secure',
  )
  expect(sessionCookie({ isTls: false }).set('t', 60)).toBe('brokkr_session=t; Max-Age=60; Path=/; HttpOnly; SameSite=Strict')
  expect(sessionCookie({ isTls: true }).cleared).toBe('__Host-brokkr_session=; Max-Age=0; Path=/; HttpOnly; SameSite=Strict; Secure')
})

test('a body without Content-Type is accepted with a PAK and refused with a session', async () => {
  const send = (headers: Record<string, string>) =>
    fetch(`${server.url}/api/v1/generators`, { method: 'POST', headers, body: new TextEncoder().encode('{"name":"g"}') })
  expect((await send({ authorization: 'Bearer brokkr_BRadmin1_admin1admin1admin1admin1admin1' })).status).toBe(201)
  const refused = await send(sessionHeaders(server))
  expect([refused.status, ((await refused.json()) as { code: string }).code]).toEqual([415, 'unsupported_media_type'])
})

test('a duplicate or malformed cookie is refused', async () => {
  const { cookie } = sessionHeaders(server)
  const statusOf = async (headers: Record<string, string>) => (await call(server, 'listStacks', { pak: null, headers })).status
  expect(await statusOf({ cookie: `a=b; ${cookie}; c=d` })).toBe(200)
  for (const bad of [
    `${cookie}; ${cookie}`,
    `${cookie}x`,
    cookie.replace('brokkr', '__Host-brokkr'),
    cookie.replace('=', '=%'),
    'brokkr_session=',
  ])
    expect([bad, await statusOf({ cookie: bad })]).toEqual([bad, 401])
  expect(await statusOf({ cookie, authorization: 'Bearer x' })).toBe(401)
  expect(await statusOf({ cookie, 'x-generator-key': 'x' })).toBe(401)
})

test.each([
  ['https://broker.example', 'broker.example', 'https', null],
  ['https://broker.example', 'broker.example', 'http', 'origin_refused'],
  ['https://broker.example:8443', 'broker.example:8443', 'https', null],
  ['https://broker.example', '', 'https', 'origin_refused'],
] as const)('origin %s at host %s by %s', (origin, host, scheme, code) => {
  const principal = {
    kind: 'admin',
    id: '',
    name: '',
    readonly: false,
    scope: null,
    endsAtMs: null,
    isActive: true,
    session: 's',
    pakHash: null,
  } as const
  const headers = { origin, host, 'x-brokkr-console': '1' }
  expect(checkOrigin(principal, { method: 'POST', headers }, scheme)?.code ?? null).toBe(code)
  expect(checkOrigin({ ...principal, session: null }, { method: 'POST', headers: {} }, scheme)).toBeNull()
})
