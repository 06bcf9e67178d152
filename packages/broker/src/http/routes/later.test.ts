// Operations of a later release: who may call them is decided, what is sent is checked, and the answer is one clear word.
import { type Endpoint, operationId } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { v1Operations } from '@brokkr/contract/v1-operations.fixture.ts'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { permissions } from '../permissions.fixture.ts'
import { call, paks, startTestServer, type TestServer } from '../server.fixture.ts'
import { handlers } from './index.ts'
import { notAvailable } from './later.ts'

const later = (Object.keys(handlers) as EndpointName[]).filter((name) => handlers[name] === notAvailable)
let server: TestServer
beforeAll(async () => {
  server = await startTestServer({ handler: notAvailable })
})
afterAll(() => server.close())

test.each(later)('%s answers not_available to whoever may call it, and to nobody else', async (name) => {
  const pak = permissions[name][0] === 'ok' ? paks.admin : paks.itself
  const { status, json } = await call(server, name, { pak })
  expect([status, json?.code]).toEqual([501, 'not_available'])
  expect((await call(server, name, { pak: null })).status).toBe(401)
  if ((endpoints[name] as Endpoint).body !== undefined) expect((await call(server, name, { pak, body: '{"' })).status).toBe(400)
})

test('all of them are operations that clients know already', () => {
  expect(later.filter((name) => v1Operations[operationId(name)] === undefined)).toEqual([])
})
