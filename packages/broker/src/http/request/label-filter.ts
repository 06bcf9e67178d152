// Converts label and annotation query parameters to a store filter without duplicates. An annotation is split at its first `=`.
import { ApiError } from '@brokkr/contract/errors.ts'
import type { LabelFilter } from '../../targeting/store/label-filter.ts'

export function toLabelFilter(query: {
  readonly label?: readonly string[] | undefined
  readonly annotation?: readonly string[] | undefined
}): LabelFilter {
  const annotations = [...new Set(query.annotation)].map(parseAnnotation)
  return { labels: [...new Set(query.label)], keys: annotations.map(([key]) => key), values: annotations.map(([, value]) => value) }
}

function parseAnnotation(text: string): readonly [key: string, value: string] {
  const separator = text.indexOf('=')
  if (separator > 0) return [text.slice(0, separator), text.slice(separator + 1)]
  const message = 'must have the form key=value'
  throw new ApiError('invalid_query_parameter', `query parameter annotation ${message}`, {
    details: { errors: [{ path: 'annotation', message }] },
  })
}
