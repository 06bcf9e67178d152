import { ApiError } from '@brokkr/contract/errors.ts'
import { expect, test } from 'vitest'
import { json, scriptedBroker } from '../test-parts/scripted-broker.ts'

const id = '0a000000-0000-4000-8000-000000000001' as never
const signal = AbortSignal.timeout(20_000)
const yaml = { accept: 'application/yaml', bytesMax: 1000, signal }

test('every request contains the PAK and the version of the agent', async () => {
  const server = await scriptedBroker((_request, response) => json(response, 200, { ok: true }))
  const broker = await server.connect()
  await broker.client.getAgent({ params: { id } })
  await broker.text('/api/v1/x', yaml)
  for (const { headers } of server.requests)
    expect(headers).toMatchObject({ authorization: 'Bearer brokkr_BRtest_key', 'user-agent': 'brokkr-agent/test' })
})

test('a redirect is not followed, and the PAK is not sent to its target', async () => {
  const elsewhere = await scriptedBroker((_request, response) => json(response, 200, {}))
  const server = await scriptedBroker((_request, response) => {
    response.writeHead(302, { location: `${elsewhere.url}/api/v1/agents/${id}` })
    response.end()
  })
  const broker = await server.connect()
  await expect(broker.client.getAgent({ params: { id } })).rejects.toThrow('redirects are not followed')
  await expect(broker.text('/api/v1/x', yaml)).rejects.toThrow('redirects are not followed')
  await expect(broker.open('/api/v1/x', { accept: '*/*', signal })).rejects.toThrow('redirects are not followed')
  await expect(broker.text('//elsewhere.example/x', yaml)).rejects.toThrow('redirects are not followed')
  expect(elsewhere.requests).toEqual([])
})

test('a response beyond its size limit is aborted', async () => {
  const server = await scriptedBroker((_request, response) => void response.end('x'.repeat(5_000)))
  await expect((await server.connect()).text('/api/v1/x', yaml)).rejects.toThrow('exceeds 1000 bytes')
})

test('a request without a response fails after the timeout', async () => {
  const server = await scriptedBroker(() => undefined)
  const broker = await server.connect({ timeoutMs: 50 })
  await expect(broker.client.getAgent({ params: { id } })).rejects.toThrow('timeout')
  await expect(broker.text('/api/v1/x', yaml)).rejects.toThrow('timeout')
})

test.each([
  ['a page of somebody in front', 503, '<html>', 'overloaded'],
  ['an empty 401', 401, '', 'unauthorized'],
  ['our own words', 403, '{"code":"agent_pak_mismatch","message":"no"}', 'agent_pak_mismatch'],
])('a rejected request throws an error with a code: %s', async (_what, status, body, code) => {
  const server = await scriptedBroker((_request, response) => {
    response.writeHead(status)
    response.end(body)
  })
  const broker = await server.connect()
  for (const call of [
    broker.text('/api/v1/x', yaml),
    broker.open('/api/v1/x', { accept: '*/*', signal }),
    broker.client.getAgent({ params: { id } }),
  ]) {
    const error = await call.then(
      () => null,
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(ApiError)
    expect(error).toMatchObject({ code })
  }
})
