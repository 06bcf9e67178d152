import { type Endpoint, operationId } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { type ErrorCode, errorStatus } from '@brokkr/contract/errors.ts'
import { expect, test } from 'vitest'
import { aboutMissing, permissions } from '../../auth/permissions.fixture.ts'
import { openApi } from './openapi.ts'

const document = openApi({ version: '1.2.3' })
const table = Object.entries(endpoints) as [string, Endpoint][]

test.each(table)('%s is in the document under its operationId', (name, endpoint) => {
  const operation = document.paths[endpoint.path]?.[endpoint.method.toLowerCase()] as {
    operationId: string
    summary: string
    responses: Record<string, unknown>
    parameters: { name: string; in: string }[]
  }
  expect([operation.operationId, operation.summary]).toEqual([operationId(name), endpoint.summary])
  expect(Object.keys(operation.responses)).toContain(String(endpoint.success))
  const inPath = [...endpoint.path.matchAll(/\{(\w+)\}/g)].map((match) => match[1])
  expect(operation.parameters.filter((parameter) => parameter.in === 'path').map((parameter) => parameter.name)).toEqual(inPath)
})

test('the OpenAPI document has each operation of the table once', () => {
  const ids = Object.values(document.paths).flatMap((methods) =>
    Object.values(methods).map((operation) => String(operation['operationId'])),
  )
  expect(ids.toSorted()).toEqual(table.map(([name]) => operationId(name)).toSorted())
  expect(new Set(ids).size).toBe(ids.length)
})

test('no reference leads nowhere', () => {
  const references = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map((match) => match[1] ?? '')
  const resolve = (pointer: string) =>
    pointer
      .split('/')
      .slice(1)
      .reduce<unknown>((value, key) => (value as Record<string, unknown> | undefined)?.[key], document)
  expect(references.length).toBeGreaterThan(0)
  expect([...new Set(references)].filter((pointer) => !pointer.startsWith('#/') || resolve(pointer) === undefined)).toEqual([])
})

test('every code an endpoint declares is listed under its status', () => {
  for (const [, endpoint] of table) {
    const operation = document.paths[endpoint.path]?.[endpoint.method.toLowerCase()]
    for (const code of endpoint.errors ?? []) expect(JSON.stringify(operation?.['responses'])).toContain(`"${code}"`)
  }
})

test('the raw forms of a manifest are described, and a stream is no JSON document', () => {
  const submit = document.paths['/api/v1/stacks/{id}/deployment-objects']?.['post']
  const body = submit?.['requestBody'] as { content: object } | undefined
  expect(Object.keys(body?.content ?? {})).toEqual(['application/json', 'application/yaml', 'text/yaml', 'application/x-yaml'])
  const stream = document.paths['/api/v1/agents/{id}/stream']?.['get']
  expect(JSON.stringify(stream?.['responses'])).toContain('application/x-ndjson')
})

/** The codes that the document lists for an operation; 401 has no body. */
function documented(name: EndpointName): ErrorCode[] {
  const { path, method } = endpoints[name]
  const responses = document.paths[path]?.[method.toLowerCase()]?.['responses'] as Record<string, { description: string }>
  const codes = Object.keys(errorStatus) as ErrorCode[]
  return codes.filter((code) => code === 'unauthorized' || responses[errorStatus[code]]?.description.split(', ').includes(code))
}

test.each(Object.keys(endpoints) as EndpointName[])('%s lists every code with which it can refuse a caller', (name) => {
  const refusals = [...permissions[name], ...(aboutMissing[name] ?? [])].filter((code) => code !== 'ok')
  expect([...new Set(refusals)].filter((code) => !documented(name).includes(code))).toEqual([])
})

test.each<[EndpointName, ErrorCode]>([
  ['createAgent', 'limit_exceeded'],
  ['createStack', 'limit_exceeded'],
  ['createStack', 'idempotency_key_reused'],
  ['agentStream', 'draining'],
  ['searchAgent', 'name_and_cluster_required'],
])('%s lists %s', (name, code) => expect(documented(name)).toContain(code))

test('an error code with two statuses is listed under both', () => {
  const responses = document.paths['/api/v1/webhooks/{id}']?.['put']?.['responses'] as Record<string, { description: string }>
  expect([responses['400']?.description, responses['422']?.description]).toEqual([
    expect.stringContaining('invalid_webhook'),
    expect.stringContaining('invalid_webhook'),
  ])
})
