// The parts of the OpenAPI document that the reference shows.
import { useQuery } from '@tanstack/react-query'

export interface Schema {
  readonly type?: string | string[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly required?: readonly string[]
  readonly items?: Schema
  readonly enum?: readonly unknown[]
  readonly anyOf?: readonly Schema[]
  readonly allOf?: readonly Schema[]
  readonly oneOf?: readonly Schema[]
  readonly format?: string
  readonly const?: unknown
  readonly default?: unknown
  readonly maxLength?: number
  readonly maximum?: number
  readonly minimum?: number
  readonly additionalProperties?: Schema | boolean
}
export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query'
  readonly required?: boolean
  readonly schema: Schema
}
interface Content {
  readonly content?: Readonly<Record<string, { readonly schema: Schema }>>
}
export interface Operation {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly tag: string
  readonly summary: string
  readonly parameters: readonly Parameter[]
  readonly body: Schema | null
  readonly responses: readonly { readonly status: string; readonly description: string; readonly schema: Schema | null }[]
  readonly isStream: boolean
}

type RawOperation = {
  operationId: string
  summary: string
  tags: string[]
  parameters: Parameter[]
  requestBody?: Content
  responses: Record<string, Content & { description: string }>
}

export const useOperations = () =>
  useQuery({
    queryKey: ['openapi'],
    staleTime: Number.POSITIVE_INFINITY,
    queryFn: async ({ signal }): Promise<Operation[]> => {
      const response = await fetch('/docs/openapi.json', { signal })
      const { paths } = (await response.json()) as { paths: Record<string, Record<string, RawOperation>> }
      return Object.entries(paths).flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, raw]) => toOperation(method, path, raw)),
      )
    },
  })

function toOperation(method: string, path: string, raw: RawOperation): Operation {
  return {
    id: raw.operationId,
    method: method.toUpperCase(),
    path,
    tag: raw.tags[0] ?? 'api',
    summary: raw.summary,
    parameters: raw.parameters,
    body: raw.requestBody?.content?.['application/json']?.schema ?? null,
    responses: Object.entries(raw.responses).map(([status, { description, content }]) => ({
      status,
      description,
      schema: Object.values(content ?? {})[0]?.schema ?? null,
    })),
    isStream: Object.values(raw.responses).some(({ content }) => content?.['application/x-ndjson'] !== undefined),
  }
}
