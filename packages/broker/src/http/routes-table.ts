// Which methods a path has: for 405 with `Allow`, for OPTIONS, and to tell an unknown path from a known one.
import type { Endpoint } from '@brokkr/contract/endpoint.ts'
import { endpoints } from '@brokkr/contract/endpoints.ts'

/** `/api/v1/agents/{id}` → `/api/v1/agents/:id`, as the router and the metrics write it. */
export const routePattern = (path: string): string => path.replace(/\{(\w+)\}/g, ':$1')

/** A stream has no head without its body; every other GET has. */
export const methodsOf = ({ method, stream }: Endpoint): string[] => (method === 'GET' && stream !== true ? ['GET', 'HEAD'] : [method])

/** Paths outside the table of endpoints; all are read with GET. */
export const plainPaths = ['/healthz', '/readyz', '/metrics', '/docs', '/docs/openapi.json', '/swagger-ui', '/swagger-ui/'] as const

export function createMethodsOfPath(): (path: string) => string[] {
  const known = new Map<string, { segments: string[]; methods: Set<string> }>()
  const add = (path: string, methods: readonly string[]) => {
    const entry = known.get(path) ?? { segments: path.split('/'), methods: new Set() }
    for (const method of methods) entry.methods.add(method)
    known.set(path, entry)
  }
  for (const endpoint of Object.values(endpoints)) add(endpoint.path, methodsOf(endpoint))
  for (const path of plainPaths) add(path, ['GET', 'HEAD'])
  return (path) => {
    const segments = path.split('/').map(decodedSegment)
    const fitting = [...known.values()].filter((entry) => matches(entry.segments, segments))
    // A path that is written out wins over one that takes it for a parameter.
    const exact = fitting.filter((entry) => !entry.segments.some(isParameter))
    const found = (exact.length > 0 ? exact : fitting).flatMap((entry) => [...entry.methods])
    return [...new Set(found)].toSorted()
  }
}

const matches = (pattern: readonly string[], segments: readonly string[]): boolean =>
  pattern.length === segments.length &&
  pattern.every((part, index) => part === segments[index] || (isParameter(part) && segments[index] !== ''))

const isParameter = (part: string): boolean => part.startsWith('{')

/** Paths without parameters: whatever method they lack, no other path may answer for them. */
export const staticPaths: ReadonlySet<string> = new Set(Object.values(endpoints).flatMap(({ path }) => (path.includes('{') ? [] : [path])))

function decodedSegment(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
