import { expect, test } from 'vitest'
import { isApiPath } from '../server/not-found.ts'
import { askRaw, statusLines } from '../server/raw-http.fixture.ts'
import { startTestServer } from '../server/server.fixture.ts'
import { getClientAddress, getUserAgent, parseTarget } from './request-head.ts'

test.each([
  ['/a/b?c=d&e', '/a/b', 'c=d&e'],
  ['/a?', '/a', ''],
  ['/a?x=1?y=2', '/a', 'x=1?y=2'],
  ['/a#b?c', '/a', ''],
  ['http://host:80/a?b', '/a', 'b'],
  ['HTTPS://host', '/', ''],
  ['//api/v1', '//api/v1', ''],
  ['*', '*', ''],
])('the target %s is path %s and query %j', (url, path, query) => {
  expect(parseTarget(url)).toEqual({ path, query })
})

test.each([
  ['/api', true],
  ['/api/v1/x', true],
  ['/API/x', true],
  ['/%61%70%69/x', true],
  ['//api//v1', true],
  ['/\\api/v1', true],
  ['/api;x', true],
  ['/internal/x', true],
  ['/apiary', false],
  ['/docs/api/x', false],
  ['/', false],
])('%s belongs to the API: %s', (path, expected) => {
  expect(isApiPath(path)).toBe(expected)
})

test.each([
  ['198.51.100.9', '127.0.0.1', '198.51.100.9'],
  ['2001:db8::1', '127.0.0.1', '2001:db8::1'],
  ['::ffff:192.0.2.1', undefined, '192.0.2.1'],
  ['<script>', '::ffff:192.0.2.7', '192.0.2.7'],
  ['', undefined, ''],
])('hop %j behind peer %j is %j', (hop, peer, expected) => {
  expect(getClientAddress(hop, peer)).toBe(expected)
})

test('the name of a client is cut', () => {
  expect([getUserAgent({}), getUserAgent({ 'user-agent': 'x'.repeat(10_000) })?.length]).toEqual([null, 512])
})

test('a whole address as target leads to the same operation, and to the same refusal', async () => {
  const server = await startTestServer()
  try {
    const text = await askRaw(server.http.port, 'GET http://elsewhere/api/v1/agents HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
    expect(statusLines(text)).toEqual(['HTTP/1.1 401'])
  } finally {
    await server.close()
  }
})
