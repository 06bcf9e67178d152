// A broker as the first version was, made of a real one: operations that it did not have are not there, and answers hold what
// they held then and no more.
import { v1Operations } from '@brokkr/contract/v1-operations.fixture.ts'
import type { Fault, FixedResponse } from '@brokkr/testing/faults/broker-proxy.ts'

const operations = Object.values(v1Operations).map((operation) => {
  const [method, path] = operation.split(' ') as [string, string]
  return { method, pattern: new RegExp(`^/api/v1${path.replaceAll(/\{[^}]+\}/g, '[^/]+')}$`) }
})

/** Fields of a deployment object on the recorded wire. */
const objectFields = [
  'id',
  'created_at',
  'updated_at',
  'deleted_at',
  'sequence_id',
  'stack_id',
  'yaml_content',
  'yaml_checksum',
  'submitted_at',
  'is_deletion_marker',
]

export function firstVersion({ method, path }: { method: string; path: string }): Fault {
  const isKnown = operations.some((operation) => operation.method === method && operation.pattern.test(path))
  if (!isKnown) return { do: 'answer', status: 404, headers: { 'content-type': 'text/plain' }, body: '' }
  if (path.endsWith('/heartbeat'))
    return { do: 'change', answer: ({ status }) => ({ status: status < 300 ? 204 : status, headers: {}, body: '' }) }
  if (path.endsWith('/target-state')) return { do: 'change', answer: asThen }
  return { do: 'pass' }
}

function asThen({ status, body }: FixedResponse): FixedResponse {
  if (status === 304) return { status, headers: {}, body: '' }
  const items = (JSON.parse(body) as Record<string, unknown>[]).map((item) =>
    Object.fromEntries(objectFields.map((field) => [field, item[field]])),
  )
  return { status, headers: { 'content-type': 'application/json' }, body: JSON.stringify(items) }
}
