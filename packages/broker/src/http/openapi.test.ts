import { type Endpoint, operationId } from '@brokkr/contract/endpoint.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import { expect, test } from 'vitest'
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

test('it holds no operation but those of the table, each id once', () => {
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
