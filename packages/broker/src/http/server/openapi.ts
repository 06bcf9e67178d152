// Builds the OpenAPI 3.1 document from the endpoint table.
import { type Endpoint, operationId } from '@brokkr/contract/endpoint.ts'
import { type EndpointName, endpoints } from '@brokkr/contract/endpoints.ts'
import { ErrorBody, type ErrorCode, errorStatus, secondStatus } from '@brokkr/contract/errors.ts'
import { z } from 'zod'
import { refusalCodes } from '../../auth/check-permit.ts'

type Json = { [key: string]: unknown }
export interface OpenApi extends Json {
  readonly openapi: string
  readonly paths: Record<string, Record<string, Json>>
}

export interface OpenApiOptions {
  readonly version: string
}

export function openApi(options: OpenApiOptions): OpenApi {
  const paths: OpenApi['paths'] = {}
  for (const [name, endpoint] of Object.entries(endpoints) as [EndpointName, Endpoint][]) {
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
      schemas: { Error: toJsonSchema(ErrorBody, 'output') },
      securitySchemes: {
        pak: { type: 'http', scheme: 'bearer', description: 'A key: brokkr_BR??????_…' },
        joinToken: { type: 'apiKey', in: 'header', name: 'Authorization', description: 'A join token: Join jt_…_…' },
        generatorKey: { type: 'apiKey', in: 'header', name: 'X-Generator-Key', description: 'The key of a generator' },
      },
    },
  }
}

function operation(name: EndpointName, endpoint: Endpoint): Json {
  return {
    operationId: operationId(name),
    summary: endpoint.summary,
    ...(endpoint.credential === 'join' ? { security: [{ joinToken: [] }] } : endpoint.credential === 'link' ? { security: [] } : {}),
    tags: [endpoint.path.split('/')[3] ?? 'api'],
    parameters: [...parameters(endpoint.params, 'path'), ...parameters(endpoint.query, 'query')],
    ...requestBody(endpoint),
    responses: {
      [endpoint.success]: success(endpoint),
      ...otherSuccess(endpoint),
      ...errors(endpoint, refusalCodes(name)),
    },
  }
}

function toJsonSchema(type: z.ZodType, io: 'input' | 'output'): Json {
  const { $schema: _, ...schema } = z.toJSONSchema(type, { io }) as Json
  return schema
}

function parameters(type: z.ZodType | undefined, place: 'path' | 'query'): Json[] {
  if (type === undefined) return []
  const { properties = {}, required = [] } = toJsonSchema(type, 'input') as { properties?: Record<string, Json>; required?: string[] }
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
    requestBody: { required: bodyKind !== 'optional', content: { 'application/json': { schema: toJsonSchema(body, 'input') }, ...yaml } },
  }
}

function success({ response, stream, text }: Endpoint): Json {
  if (stream === true)
    return {
      description: 'Frames, one JSON document per line, without end',
      content: { 'application/x-ndjson': { schema: { type: 'string' } } },
    }
  if (response === undefined) return { description: 'Done; no body' }
  return { description: 'Done', content: { [text ?? 'application/json']: { schema: toJsonSchema(response, 'output') } } }
}

function otherSuccess({ other }: Endpoint): Json {
  if (other === undefined) return {}
  const schema = toJsonSchema(other.response, 'output')
  return { [other.status]: { description: 'Done, in the form that was asked for', content: { 'application/json': { schema } } } }
}

/** Responses of every operation; those of the endpoint and its permission rule are added. */
const commonErrors: readonly ErrorCode[] = [
  'unauthorized',
  'uri_too_long',
  'readonly',
  'scope_denied',
  'rate_limited',
  'internal_error',
  'overloaded',
  'timeout',
  'database_unavailable',
]
/** Mutations accept an Idempotency-Key; with a session they must come from the console. */
const changeErrors: readonly ErrorCode[] = ['idempotency_in_progress', 'idempotency_key_reused', 'secret_already_issued', 'origin_refused']
const streamErrors: readonly ErrorCode[] = ['feed_unavailable', 'draining']
const bodyErrors: readonly ErrorCode[] = [
  'invalid_json',
  'invalid_request_body',
  'validation_failed',
  'unsupported_media_type',
  'payload_too_large',
]

function errors(endpoint: Endpoint, more: readonly ErrorCode[]): Json {
  const codes: ErrorCode[] = [...(endpoint.errors ?? []), ...more, ...commonErrors, ...(endpoint.body === undefined ? [] : bodyErrors)]
  if (endpoint.method !== 'GET') codes.push(...changeErrors)
  if (endpoint.stream === true) codes.push(...streamErrors)
  if (endpoint.params !== undefined) codes.push('invalid_path_parameter')
  if (endpoint.query !== undefined) codes.push('invalid_query_parameter')
  const answers = [...new Set(codes)].flatMap((code) =>
    [errorStatus[code], secondStatus[code]].flatMap((status) => (status === undefined ? [] : [{ status, code }])),
  )
  const byStatus = Map.groupBy(answers, ({ status }) => status)
  return Object.fromEntries(
    [...byStatus].map(([status, list]) => [
      status,
      errorResponse(
        status,
        list.map(({ code }) => code),
      ),
    ]),
  )
}

function errorResponse(status: number, codes: readonly ErrorCode[]): Json {
  if (status === 401) return { description: 'No valid key; the body is empty' }
  const schema = { allOf: [{ $ref: '#/components/schemas/Error' }, { type: 'object', properties: { code: { enum: codes } } }] }
  return { description: codes.join(', '), content: { 'application/json': { schema } } }
}
