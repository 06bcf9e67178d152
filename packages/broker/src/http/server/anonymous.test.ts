// Nobody gets anything: every path of the table and its neighbours, with every verb, without a key.
// long: every path in every disguise
import { type Endpoint, fillPath } from '@brokkr/contract/endpoint.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listMethods } from './route-methods.ts'
import { paks, pathValues, startTestServer, type TestServer } from './server.fixture.ts'

const verbs = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const table = Object.values(endpoints) as Endpoint[]
const paths = [...new Set(table.map((endpoint) => endpoint.path))]
const filled = (path: string) => fillPath(path, pathValues)
const methodsOfPath = (path: string) => table.filter((endpoint) => endpoint.path === path).flatMap(listMethods)

let server: TestServer
beforeAll(async () => {
  server = await startTestServer()
})
afterAll(() => server.close())

async function ask(path: string, method: string, headers: Record<string, string> = {}) {
  const hasBody = method !== 'GET' && method !== 'HEAD'
  const response = await fetch(server.url + path, {
    method,
    headers: { 'content-type': 'application/json', ...headers },
    redirect: 'manual',
    ...(hasBody ? { body: '{}' } : {}),
  })
  return { status: response.status, text: await response.text(), headers: response.headers }
}

test.each(paths)(
  '[X8] %s with seven verbs: 401 and empty whether it has the verb or not, and OPTIONS tells only its methods',
  async (path) => {
    for (const method of verbs) {
      const { status, text, headers } = await ask(filled(path), method)
      const allowed = methodsOfPath(path).toSorted().join(', ')
      const expected = method === 'OPTIONS' ? [200, '', null, allowed] : [401, '', 'Bearer', null]
      expect([method, status, text, headers.get('www-authenticate'), headers.get('allow')]).toEqual([method, ...expected])
    }
    expect(server.reached).toEqual([])
  },
)

test.each(paths)('%s returns 405 for an unsupported method with a valid PAK', async (path) => {
  for (const method of verbs.filter((verb) => verb !== 'OPTIONS' && !methodsOfPath(path).includes(verb))) {
    const { status, headers } = await ask(filled(path), method, { authorization: `Bearer ${paks.foreignAgent}` })
    expect([method, status, headers.get('allow')]).toEqual([method, 405, methodsOfPath(path).toSorted().join(', ')])
  }
  expect(server.reached).toEqual([])
})

const twisted: [string, (path: string) => string][] = [
  ['a slash behind it', (path) => `${path}/`],
  ['doubled slashes', (path) => path.replaceAll('/', '//')],
  ['a doubled first slash', (path) => `/${path}`],
  ['an escaped slash', (path) => path.replace('/v1/', '/v1%2f')],
  ['escaped letters', (path) => path.replace('/api/', '/%61pi/')],
  ['a parameter behind a semicolon', (path) => `${path};x=1`],
  ['a semicolon in the middle', (path) => path.replace('/v1/', '/v1;x/')],
  ['capitals', (path) => path.toUpperCase()],
  ['a dot segment', (path) => path.replace('/v1/', '/v1/%2e/')],
  ['a way out and in again', (path) => path.replace('/api/', '/docs/%2e%2e/api/')],
  ['a back slash', (path) => path.replaceAll('/', '%5c').replace(/^%5c/, '/')],
]
test.each(twisted)('[X8] every path with %s is refused without a PAK', async (_, twist) => {
  for (const path of paths) {
    for (const method of ['GET', 'POST', 'DELETE']) {
      const { status, text } = await ask(twist(filled(path)), method)
      // Outside the API there is the page and nothing else.
      const isPage = status === 200 && /^<p>page of \d+<\/p>$/.test(text)
      expect([path, method, status, isPage || [400, 401, 404, 405].includes(status)]).toEqual([path, method, status, true])
    }
  }
  expect(server.reached).toEqual([])
})

test.each(['x-http-method-override', 'x-method-override', 'x-http-method'])('[X8] %s does not override the method', async (header) => {
  for (const path of paths) {
    for (const method of methodsOfPath(path)) expect((await ask(filled(path), method, { [header]: 'OPTIONS' })).status).toBe(401)
  }
  expect(server.reached).toEqual([])
})

test('[X8] only the listed paths answer without a PAK', async () => {
  const open = ['/healthz', '/readyz', '/metrics', '/docs', '/docs/openapi.json', '/swagger-ui/']
  for (const path of open) expect([path, (await ask(path, 'GET')).status]).toEqual([path, 200])
  expect((await ask('/swagger-ui', 'GET')).status).toBe(303)
})
