// The server as a whole: order of steps, exactly one answer, two-phase start, what lies outside the API.
import { type Endpoint } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { waitFor } from '@brokkr/testing/wait-for.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { permissions } from '../../auth/permissions.fixture.ts'
import type { CredentialRow } from '../authentication/authenticate.ts'
import { answered } from './handler.ts'
import { askRaw, openRaw, statusLines } from './raw-http.fixture.ts'
import {
  call,
  countingHandlers,
  credentials,
  joinToken,
  paks,
  sampleAnswer,
  sessionHeaders,
  startTestServer,
  type TestOptions,
  type TestServer,
} from './server.fixture.ts'

const requestText = (path: string, head = '') => `GET ${path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${paks.admin}\r\n${head}\r\n`

async function withServer<T>(options: TestOptions, work: (server: TestServer) => Promise<T>): Promise<T> {
  const server = await startTestServer(options)
  try {
    return await work(server)
  } finally {
    await server.close()
  }
}

describe('[X10] a request whose authentication fails gets one response and no handler', () => {
  const closing = requestText('/api/v1/agents', 'Connection: close\r\n')

  test('[X10] it refuses: 401', () =>
    withServer({ lookupCredential: async () => null }, async (server) => {
      const text = await askRaw(server.http.port, closing)
      expect([statusLines(text), server.reached]).toEqual([['HTTP/1.1 401'], []])
    }))

  test('[X10] it throws: 500', () =>
    withServer({ lookupCredential: () => Promise.reject(new Error('a bug')) }, async (server) => {
      const text = await askRaw(server.http.port, closing)
      expect([statusLines(text), server.reached]).toEqual([['HTTP/1.1 500'], []])
      expect(text).not.toContain('a bug')
      expect(server.log).toHaveLength(1)
    }))

  test('[X10] an authentication that hangs returns 503', async () => {
    const late = Promise.withResolvers<CredentialRow | null>()
    await withServer({ lookupCredential: () => late.promise, limits: { handlerMs: 200 } }, async (server) => {
      const connection = await openRaw(server.http.port)
      connection.send(requestText('/api/v1/agents'))
      await connection.until(/"code":"timeout"/)
      late.resolve(credentials()[0] ?? null)
      // A second answer on the same connection would come before that of a second request.
      connection.send('GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
      await connection.closed
      expect([statusLines(connection.received()), server.reached]).toEqual([['HTTP/1.1 503', 'HTTP/1.1 200'], []])
    })
  })

  test('[X10] a request whose client disconnects does not reach its handler', async () => {
    const asked = Promise.withResolvers<void>()
    const late = Promise.withResolvers<CredentialRow | null>()
    const lookupCredential = () => {
      asked.resolve()
      return late.promise
    }
    await withServer({ lookupCredential }, async (server) => {
      const connection = await openRaw(server.http.port)
      connection.send(requestText('/api/v1/agents'))
      await asked.promise
      connection.socket.destroy()
      await waitFor('the server to notice', async () =>
        (await server.metrics.text()).includes('brokkr_http_requests_total{endpoint="/api/v1/agents"'),
      )
      late.resolve(credentials()[0] ?? null)
      expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
      expect([server.reached, server.log]).toEqual([[], []])
    })
  })

  test('[X10] permission is refused or hangs: the handler is not reached either', async () => {
    await withServer({ limits: { handlerMs: 200 }, lookups: { stack: () => new Promise(() => {}) } }, async (server) => {
      expect((await call(server, 'createAgent', { pak: paks.owner })).status).toBe(403)
      expect((await call(server, 'getStack')).status).toBe(503)
      expect(server.reached).toEqual([])
    })
  })
})

describe('two phases', () => {
  test('a server that is not live answers probes and serves no API request', () =>
    withServer({ isLive: false }, async (server) => {
      const text = async (path: string) => {
        const response = await fetch(server.url + path)
        return [response.status, await response.text()]
      }
      expect(await text('/healthz')).toEqual([200, 'OK'])
      expect(await text('/readyz')).toEqual([503, 'starting'])
      const early = await call(server, 'listAgents')
      expect([early.status, early.json?.code, early.headers.get('retry-after')]).toEqual([503, 'overloaded', '1'])
      server.http.goLive(server.live)
      expect(await text('/readyz')).toEqual([200, 'Ready'])
      expect((await call(server, 'listAgents')).status).toBe(200)
      server.http.drain()
      expect(await text('/readyz')).toEqual([503, 'draining'])
    }))

  test('an endpoint without a handler, or a handler outside the table, stops the start', () =>
    withServer({ isLive: false }, async (server) => {
      const handlers = countingHandlers([])
      const { getAgent: _, ...incomplete } = handlers
      expect(() => server.http.goLive({ ...server.live, handlers: incomplete as typeof handlers })).toThrow(
        /without handler or rule: getAgent/,
      )
      const foreign = { ...handlers, backdoor: async () => undefined }
      expect(() => server.http.goLive({ ...server.live, handlers: foreign })).toThrow(/not in the endpoint table: backdoor/)
      expect((await call(server, 'listAgents')).status).toBe(503)
    }))

  test('close waits for requests in progress up to the grace time', async () => {
    const release = Promise.withResolvers<unknown>()
    const server = await startTestServer({ handler: () => release.promise })
    const underWay = call(server, 'listAgents')
    await waitFor('the handler', () => server.reached.length === 1)
    const closed = server.http.close(10_000)
    release.resolve([])
    expect((await underWay).status).toBe(200)
    await closed

    const stuck = await startTestServer({ handler: () => new Promise(() => {}) })
    const cut = call(stuck, 'listAgents').catch(() => 'cut')
    await waitFor('the handler', () => stuck.reached.length === 1)
    await stuck.http.close(50)
    expect(await cut).toBe('cut')
  })
})

describe('answers', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())
  const names = Object.keys(endpoints) as EndpointName[]

  test.each(names.filter((name) => (endpoints[name] as Endpoint).stream !== true))(
    '%s answers its success with what its schema names, and nothing cached',
    async (name) => {
      const endpoint: Endpoint = endpoints[name]
      const pak = endpoint.credential === 'join' ? joinToken : permissions[name][0] === 'ok' ? paks.admin : paks.itself
      const asSession = name === 'deleteSession' ? { pak: null, headers: sessionHeaders(server) } : { pak }
      const answer = await call(server, name, endpoint.credential === 'link' ? {} : asSession)
      expect([answer.status, answer.headers.get('cache-control'), answer.headers.get('x-content-type-options')]).toEqual([
        endpoint.success,
        'no-store',
        'nosniff',
      ])
      if (endpoint.text !== undefined)
        expect([answer.text, answer.headers.get('content-type')]).toEqual(['text', `${endpoint.text}; charset=utf-8`])
      else expect(answer.json).toEqual(sampleAnswer(endpoint) ?? null)
    },
  )

  test('a column that is not in the response schema is not sent', () =>
    withServer({ handler: () => ({ ...(sampleAnswer(endpoints.getAgent) as object), pak_hash: 'S3CR3T' }) }, async (leaky) => {
      const answer = await call(leaky, 'getAgent')
      expect([answer.status, answer.text.includes('S3CR3T'), answer.text.includes('pak_hash')]).toEqual([200, false, false])
    }))

  test('a handler value without a required field returns 500', () =>
    withServer({ handler: () => ({ id: 'x' }) }, async (broken) => {
      const answer = await call(broken, 'getAgent')
      expect([answer.status, answer.json?.code, broken.log.length]).toEqual([500, 'internal_error', 1])
    }))

  test('a handler can set headers, status and a text or empty body', () =>
    withServer(
      {
        handler: ({ reply, headers }) => {
          reply.setHeader('ETag', '"v1"')
          if (headers['x-want'] === 'empty') return reply.empty(304)
          if (headers['x-want'] === 'text') return reply.text('application/yaml', 'a: 1\n')
          reply.setStatus(202)
          return sampleAnswer(endpoints.getDeploymentObject)
        },
      },
      async (various) => {
        const as = (want: string) => call(various, 'getDeploymentObject', { headers: { 'x-want': want } })
        const [empty, text, other] = [await as('empty'), await as('text'), await as('')]
        expect([empty.status, empty.text, empty.headers.get('etag')]).toEqual([304, '', '"v1"'])
        expect([text.status, text.text, text.headers.get('content-type')]).toEqual([200, 'a: 1\n', 'application/yaml'])
        expect([other.status, other.headers.get('etag'), other.json?.['stack_id']]).toEqual([202, '"v1"', expect.any(String)])
      },
    ))

  test('a request id is taken over when it has the allowed form, else made', async () => {
    expect((await call(server, 'listAgents', { headers: { 'x-request-id': 'a.B-9_z' } })).headers.get('x-request-id')).toBe('a.B-9_z')
    for (const sent of ['has space', 'x'.repeat(129), 'é', '']) {
      expect((await call(server, 'listAgents', { headers: { 'x-request-id': encodeURI(sent) } })).headers.get('x-request-id')).toMatch(
        /^[0-9a-f-]{36}$/,
      )
    }
    expect((await call(server, 'listAgents', { pak: null, headers: { 'x-request-id': 'r-401' } })).headers.get('x-request-id')).toBe(
      'r-401',
    )
    expect(server.reached.at(-1)?.request.requestId).toMatch(/^[0-9a-f-]{36}$/)
  })

  test('HEAD is GET without its body', async () => {
    const path = `${server.url}/api/v1/stacks`
    const get = await fetch(path, { headers: { authorization: `Bearer ${paks.reader}` } })
    const head = await fetch(path, { method: 'HEAD', headers: { authorization: `Bearer ${paks.reader}` } })
    expect([head.status, await head.text(), head.headers.get('content-length')]).toEqual([
      200,
      '',
      get.headers.get('content-length') ?? String((await get.text()).length),
    ])
  })

  test('requests are measured by route pattern without ids or PAKs in labels', async () => {
    await call(server, 'agentsRemoveLabel')
    await fetch(`${server.url}/api/v1/nothing-here`)
    const text = await waitFor('the counters', async () => {
      const metrics = await server.metrics.text()
      return metrics.includes('endpoint="unmatched"') && metrics.includes('/labels/:label"') ? metrics : null
    })
    expect(text).toMatch(/brokkr_http_requests_total\{endpoint="\/api\/v1\/agents\/:id\/labels\/:label",method="DELETE",status="204"\} \d/)
    expect(text).toMatch(/brokkr_http_requests_total\{endpoint="unmatched",method="GET",status="404"\} 1/)
    expect(text).toMatch(
      /brokkr_http_request_duration_seconds_bucket\{le="0\.001",endpoint="\/api\/v1\/agents\/:id\/labels\/:label",method="DELETE"\}/,
    )
    expect(text).not.toMatch(/00000000-0000-4000/)
  })

  test('a stream is handed over raw, with the common headers, and can be aborted by its reader', async () => {
    const gone = Promise.withResolvers<void>()
    await withServer(
      {
        handler: ({ reply }) => {
          reply.setHeader('x-brokkr-cursor', 'c1')
          const { response } = reply.hijack()
          response.once('close', gone.resolve).writeHead(200, { 'content-type': 'application/x-ndjson' }).write('{"type":"ping"}\n')
          return answered
        },
        limits: { handlerMs: 100 },
      },
      async (streaming) => {
        const connection = await openRaw(streaming.http.port)
        connection.send(
          `GET /api/v1/agents/00000000-0000-4000-8000-000000000003/stream HTTP/1.1\r\nHost: x\r\nAuthorization: ${paks.itself}\r\nX-Request-Id: s-1\r\n\r\n`,
        )
        const head = await connection.until(/"ping"/)
        expect(head).toMatch(/x-request-id: s-1/i)
        expect(head).toMatch(/x-brokkr-cursor: c1/i)
        // Longer than the time for a first byte: a stream under way is not cut.
        await new Promise((resolve) => setTimeout(resolve, 250))
        expect(connection.socket.destroyed).toBe(false)
        connection.socket.destroy()
        await gone.promise
      },
    )
  })

  test('a handler that exceeds its time limit cannot respond any more', async () => {
    const release = Promise.withResolvers<void>()
    const outcome = Promise.withResolvers<unknown>()
    await withServer(
      {
        limits: { handlerMs: 100 },
        handler: async ({ reply, signal }) => {
          await release.promise
          try {
            reply.hijack()
          } catch (error) {
            outcome.resolve([signal.aborted, (error as { code?: string }).code])
          }
          return answered
        },
      },
      async (slow) => {
        expect((await call(slow, 'agentStream', { pak: paks.itself })).json?.code).toBe('timeout')
        release.resolve()
        expect(await outcome.promise).toEqual([true, 'timeout'])
      },
    )
  })
})

describe('outside the API', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startTestServer()
  })
  afterAll(() => server.close())
  const get = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(server.url + path, { redirect: 'manual', ...init })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }

  test('metrics are served without a PAK', async () => {
    const { status, headers, text } = await get('/metrics')
    expect([status, headers.get('content-type')]).toEqual([200, server.metrics.contentType])
    expect(text).toContain('# HELP brokkr_http_requests_total')
  })

  test('the docs page is self-contained and its policy permits only its own style', async () => {
    for (const path of ['/docs', '/swagger-ui/']) {
      const { status, headers, text } = await get(path)
      expect([status, headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
      expect(headers.get('content-security-policy')).toMatch(/^default-src 'none'; style-src 'sha256-[^']+'/)
      expect(text).not.toMatch(/<script|https?:\/\/|src=|@import/)
      for (const { path: endpointPath } of Object.values(endpoints)) expect(text).toContain(endpointPath)
    }
    expect([(await get('/swagger-ui')).status, (await get('/swagger-ui')).headers.get('location')]).toEqual([303, '/swagger-ui/'])
  })

  test('the description is served as JSON', async () => {
    const { status, text } = await get('/docs/openapi.json')
    expect([status, JSON.parse(text).openapi]).toEqual([200, '3.1.0'])
  })

  test('unknown paths outside the API return the status page', async () => {
    expect((await get('/')).text).toBe('<p>page of 1</p>')
    expect((await get('/stacks/some-stack')).status).toBe(200)
    for (const path of ['/api', '/api/', '/api/v1', '/api/v2/agents', '/internal/x', '/API/v1/agents', '//api/v1/agents', '/%61pi/v9']) {
      const { status, text } = await get(path)
      expect([path, status, JSON.parse(text).code]).toEqual([path, 404, 'route_not_found'])
    }
  })

  test('an unsupported method returns 405, and OPTIONS lists the supported ones', async () => {
    const wrong = await get('/api/v1/stacks', { method: 'DELETE', headers: { authorization: paks.itself } })
    expect([wrong.status, JSON.parse(wrong.text).code, wrong.headers.get('allow')]).toEqual([405, 'method_not_allowed', 'GET, HEAD, POST'])
    const options = await get('/api/v1/agents/x/targets', { method: 'OPTIONS' })
    expect([options.status, options.text, options.headers.get('allow')]).toEqual([200, '', 'GET, HEAD, POST'])
    expect((await get('/api/v1/nothing', { method: 'OPTIONS' })).status).toBe(404)
    expect((await get('/healthz', { method: 'POST' })).headers.get('allow')).toBe('GET, HEAD')
    expect((await get('/', { method: 'POST' })).text).toBe('<p>page of 1</p>')
    const stream = await get('/api/v1/watch', { method: 'HEAD', headers: { authorization: paks.itself } })
    expect([stream.status, stream.headers.get('allow')]).toEqual([405, 'GET'])
  })

  test('a broken escape in the path is 400', async () => {
    const { status, text, headers } = await get('/api/v1/agents/%zz')
    expect([status, JSON.parse(text).code, headers.has('x-request-id')]).toEqual([400, 'invalid_path_parameter', true])
  })
})

test('a long response is compressed on request, and errors are not', () =>
  withServer({ handler: () => Array.from({ length: 50 }, () => (sampleAnswer(endpoints.listAgents) as unknown[])[0]) }, async (server) => {
    const as = (pak: string | null) => call(server, 'listAgents', { pak, headers: { 'accept-encoding': 'gzip' } })
    const packed = await as(paks.admin)
    expect([packed.headers.get('content-encoding'), packed.headers.get('vary'), (packed.json as unknown as unknown[]).length]).toEqual([
      'gzip',
      'accept-encoding',
      50,
    ])
    expect((await as(paks.itself)).headers.get('content-encoding')).toBeNull()
  }))
