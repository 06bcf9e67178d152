// Methods of each path: for 405 with `Allow`, for OPTIONS, and to distinguish unknown paths.
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'

/** `/api/v1/agents/{id}` → `/api/v1/agents/:id`, the form of the router and the metrics. */
export const routePattern = (path: string): string => path.replace(/\{(\w+)\}/g, ':$1')

/** Every GET except streams also has HEAD. */
export const listMethods = ({ method, stream }: Endpoint): string[] => (method === 'GET' && stream !== true ? ['GET', 'HEAD'] : [method])

/** Paths outside the endpoint table; all have only GET. */
const plainPaths = ['/healthz', '/readyz', '/metrics', '/docs', '/docs/openapi.json', '/swagger-ui', '/swagger-ui/'] as const

export function createMethodsOfPath(): (path: string) => string[] {
  const known = new Map<string, { segments: string[]; methods: Set<string> }>()
  const add = (path: string, methods: readonly string[]) => {
    const entry = known.get(path) ?? { segments: path.split('/'), methods: new Set() }
    for (const method of methods) entry.methods.add(method)
    known.set(path, entry)
  }
  for (const endpoint of Object.values(endpoints)) add(endpoint.path, listMethods(endpoint))
  for (const path of plainPaths) add(path, ['GET', 'HEAD'])
  return (path) => {
    const segments = path.split('/').map(decodedSegment)
    const fitting = [...known.values()].filter((entry) => matches(entry.segments, segments))
    // A literal path wins over one with a parameter.
    const exact = fitting.filter((entry) => !entry.segments.some(isParameter))
    const found = (exact.length > 0 ? exact : fitting).flatMap((entry) => [...entry.methods])
    return [...new Set(found)].toSorted()
  }
}

const matches = (pattern: readonly string[], segments: readonly string[]): boolean =>
  pattern.length === segments.length &&
  pattern.every((part, index) => part === segments[index] || (isParameter(part) && segments[index] !== ''))

const isParameter = (part: string): boolean => part.startsWith('{')

/** Paths without parameters; a path with a parameter must not answer for them. */
export const staticPaths: ReadonlySet<string> = new Set(Object.values(endpoints).flatMap(({ path }) => (path.includes('{') ? [] : [path])))

function decodedSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
