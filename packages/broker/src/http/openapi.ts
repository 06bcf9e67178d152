// The OpenAPI 3.1 document, made from the endpoint table: what is in the table is in the document, and nothing else.
import { type Endpoint, operationId } from '@brokkr/contract/endpoint.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'
import { ErrorBody, type ErrorCode, errorStatus } from '@brokkr/contract/error.ts'
import { z } from 'zod'

type Json = { [key: string]: unknown }
export interface OpenApi extends Json {
  readonly openapi: string
  readonly paths: Record<string, Record<string, Json>>
}

export function openApi(options: { version: string }): OpenApi {
  const paths: OpenApi['paths'] = {}
  for (const [name, endpoint] of Object.entries(endpoints) as [string, Endpoint][]) {
    paths[endpoint.path] = { ...paths[endpoint.path], [endpoint.method.toLowerCase()]: operation(name, endpoint) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Brokkr',
      version: options.version,
      description: 'Delivers desired state to Kubernetes clusters. Errors are {code, message, details}; codes are stable.',
    },
    security: [{ pak: [] }, { generatorKey: [] }],
    paths,
    components: {
      schemas: { Error: schemaOf(ErrorBody, 'output') },
      securitySchemes: {
        pak: { type: 'http', scheme: 'bearer', description: 'A key: brokkr_BR??????_…' },
        joinToken: { type: 'apiKey', in: 'header', name: 'Authorization', description: 'A join token: Join jt_…_…' },
        generatorKey: { type: 'apiKey', in: 'header', name: 'X-Generator-Key', description: 'The key of a generator' },
      },
    },
  }
}

function operation(name: string, endpoint: Endpoint): Json {
  return {
    operationId: operationId(name),
    summary: endpoint.summary,
    ...(endpoint.credential === 'join' ? { security: [{ joinToken: [] }] } : {}),
    tags: [endpoint.path.split('/')[3] ?? 'api'],
    parameters: [...parameters(endpoint.params, 'path'), ...parameters(endpoint.query, 'query')],
    ...requestBody(endpoint),
    responses: { [endpoint.success]: success(endpoint), ...otherSuccess(endpoint), ...errors(endpoint) },
  }
}

function schemaOf(type: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...schema } = z.toJSONSchema(type, { io }) as Json
  return schema
}

function parameters(type: z.ZodType | undefined, place: 'path' | 'query'): Json[] {
  if (type === undefined) return []
  const { properties = {}, required = [] } = schemaOf(type, 'input') as { properties?: Record<string, Json>; required?: string[] }
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: place,
    required: place === 'path' || required.includes(name),
    schema,
  }))
}

function requestBody({ body, bodyKind }: Endpoint): Json {
  if (body === undefined) return {}
  const text = { schema: { type: 'string' } }
  const yaml = bodyKind === 'manifest' ? { 'application/yaml': text, 'text/yaml': text, 'application/x-yaml': text } : {}
  return {
    requestBody: { required: bodyKind !== 'optional', content: { 'application/json': { schema: schemaOf(body, 'input') }, ...yaml } },
  }
}

function success({ response, stream, text }: Endpoint): Json {
  if (stream === true)
    return {
      description: 'Frames, one JSON document per line, without end',
      content: { 'application/x-ndjson': { schema: { type: 'string' } } },
    }
  if (response === undefined) return { description: 'Done; no body' }
  return { description: 'Done', content: { [text ?? 'application/json']: { schema: schemaOf(response, 'output') } } }
}

function otherSuccess({ other }: Endpoint): Json {
  if (other === undefined) return {}
  const schema = schemaOf(other.response, 'output')
  return { [other.status]: { description: 'Done, in the form that was asked for', content: { 'application/json': { schema } } } }
}

/** Any operation may answer these; an endpoint's own come on top. */
const commonErrors: readonly ErrorCode[] = [
  'unauthorized',
  'readonly',
  'scope_denied',
  'rate_limited',
  'internal_error',
  'overloaded',
  'timeout',
  'database_unavailable',
]
const bodyErrors: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_request_body',
  'validation_failed',
  'unsupported_media_type',
  'payload_too_large',
]

function errors(endpoint: Endpoint): Json {
  const codes: ErrorCode[] = [...(endpoint.errors ?? []), ...commonErrors, ...(endpoint.body === undefined ? [] : bodyErrors)]
  if (endpoint.params !== undefined) codes.push('invalid_path_parameter')
  if (endpoint.query !== undefined) codes.push('invalid_query_parameter')
  const byStatus = Map.groupBy(new Set(codes), (code) => errorStatus[code])
  return Object.fromEntries([...byStatus].map(([status, list]) => [status, errorResponse(status, list)]))
}

function errorResponse(status: number, codes: readonly ErrorCode[]): Json {
  if (status === 401) return { description: 'No valid key; the body is empty' }
  const schema = { allOf: [{ $ref: '#/components/schemas/Error' }, { type: 'object', properties: { code: { enum: codes } } }] }
  return { description: codes.join(', '), content: { 'application/json': { schema } } }
}
