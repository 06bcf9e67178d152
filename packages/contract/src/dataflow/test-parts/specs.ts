// Specs for tests: the smallest valid block of every connector, and a flow made of them.
import { re2 } from '../language/re2.ts'
import type { NormalizeResult } from '../spec/types.ts'
import { validate } from '../spec/validate.ts'

type Map = Record<string, unknown>

export const minimalSources: Record<string, Map> = {
  kafka: { brokers: ['a:9092'], topic: 't' },
  postgresql: { connectionString: 'postgres://h/d', table: 'public.t' },
  'postgresql-cdc': { connectionString: 'postgres://h/d', tables: ['public.t'] },
  clickhouse: { connectionString: 'http://h:8123/d', table: 't' },
  trino: { serverURL: 'http://h', catalog: 'c', schema: 's', table: 't' },
  nessie: { baseURL: 'http://h', namespace: 'n', table: 't' },
  iceberg: { catalogURI: 'http://h', namespace: 'n', table: 't' },
}

export const minimalSinks: Record<string, Map> = {
  kafka: { brokers: ['a:9092'], topic: 'u' },
  postgresql: { connectionString: 'postgres://h/d', table: 'public.u' },
  clickhouse: { connectionString: 'http://h:8123/d', table: 'u' },
  trino: { serverURL: 'http://h', catalog: 'c', schema: 's', table: 'u' },
  nessie: { baseURL: 'http://h', namespace: 'n', table: 'u' },
  iceberg: { catalogURI: 'http://h', namespace: 'n', table: 'u' },
}

export const source = (type: string, more: Map = {}): Map => ({ type, config: { ...minimalSources[type], ...more } })
export const sink = (type: string, more: Map = {}): Map => ({ type, config: { ...minimalSinks[type], ...more } })

/** From Kafka to Kafka, with some fields of the spec replaced or added. */
export const spec = (more: Map = {}): Map => ({ source: source('kafka'), sink: sink('kafka'), ...more })

export const judge = (given: unknown, more: Map = {}): NormalizeResult =>
  validate({ kind: 'DataFlow', metadata: { namespace: 'ns', name: 'orders' }, spec: given, ...more }, re2)

/** `V1 spec.source.type: is required` */
export const problemsOf = (given: unknown, more: Map = {}): string[] =>
  judge(given, more).problems.map(({ rule, path, reason }) => `${rule} ${path}: ${reason}`)

export const warningsOf = (given: unknown): string[] => judge(given).warnings.map(({ path, reason }) => `${path}: ${reason}`)

export const step = (type: string, config?: Map, more: Map = {}): Map => ({ type, ...(config === undefined ? {} : { config }), ...more })
