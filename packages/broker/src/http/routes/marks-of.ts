// The labels and annotations a list is filtered by, as the store takes them: each once, an annotation cut at its first `=`.
import { ApiError } from '@brokkr/contract/error.ts'
import type { MarkFilter } from '../../store/carries.ts'

export function marksOf(query: {
  readonly label?: readonly string[] | undefined
  readonly annotation?: readonly string[] | undefined
}): MarkFilter {
  const pairs = [...new Set(query.annotation)].map(pairOf)
  return { labels: [...new Set(query.label)], keys: pairs.map(([key]) => key), values: pairs.map(([, value]) => value) }
}

function pairOf(text: string): readonly [key: string, value: string] {
  const at = text.indexOf('=')
  if (at > 0) return [text.slice(0, at), text.slice(at + 1)]
  const message = 'is written key=value'
  throw new ApiError('invalid_query_parameter', `query parameter annotation ${message}`, {
    details: { errors: [{ path: 'annotation', message }] },
  })
}
