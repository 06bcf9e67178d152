// Parts that connectors share: TLS, credentials, fields of every sink, and the description of a connector.
import { type Fields, type FlowIdentity, isMap, optional, required, type SecretRef, standard, type Values } from '../fields/field.ts'
import { choice, flag, pem, text } from '../fields/kinds.ts'
import { number, size, whole } from '../fields/kinds-number.ts'
import type { Problem, Rule, Warning } from '../fields/problem.ts'
import { block } from '../fields/read-fields.ts'

/** One side of a connector: fields, rules between them, and defaults that depend on other fields. */
export interface Side<F extends Fields, C> {
  readonly fields: F
  check(values: Values<F>, path: string): Problem[]
  warn(values: Values<F>, path: string): Warning[]
  complete(values: Values<F>, flow: FlowIdentity): C
}

export const tls = block({
  insecureSkipVerify: standard(flag, false),
  certFile: optional(text),
  keyFile: optional(text),
  caFile: optional(text),
  cert: optional(pem, { twin: 'certSecretRef' }),
  key: optional(pem, { twin: 'keySecretRef' }),
  ca: optional(pem, { twin: 'caSecretRef' }),
})

export const basicAuth = block({
  username: optional(text, { twin: true }),
  password: optional(text, { twin: true, isSecret: true }),
})

export const sasl = block({
  mechanism: standard(choice(['plain', 'scram-sha-256', 'scram-sha-512']), 'plain'),
  username: optional(text, { twin: true }),
  password: optional(text, { twin: true, isSecret: true }),
})

export const schemaRegistry = block({
  url: required(text, { twin: true }),
  basicAuth: optional(basicAuth),
  tls: optional(tls),
})

export interface SinkDefaults {
  readonly batchSize: number
  readonly batchBytes: number
  readonly intervalSeconds: number
  readonly isEager: boolean
}

export const sinkFields = (defaults: SinkDefaults) => ({
  batchSize: standard(whole({ min: 0 }), defaults.batchSize),
  batchBytes: standard(size({ min: 0, above: true }), defaults.batchBytes),
  batchFlushIntervalSeconds: optional(number({ min: 0 })),
  /** Only in the processor's spec: whether the interval was left to its default. */
  eager: optional(flag),
  exactlyOnce: standard(choice(['auto', 'required', 'off']), 'auto'),
  unknownFields: standard(choice(['deadLetter', 'ignore', 'addColumn']), 'deadLetter'),
  rawMode: standard(flag, false),
  flattenMetadataColumns: standard(flag, false),
  flattenMetadataColumnsPrefix: optional(text),
})
type SinkValues = Values<ReturnType<typeof sinkFields>>

export type SinkFlush = {
  readonly batchFlushIntervalSeconds: number
  readonly eager: boolean
}

/** A configured interval turns eager off. */
export const completeSink = (values: SinkValues, defaults: SinkDefaults): SinkFlush => ({
  batchFlushIntervalSeconds: values.batchFlushIntervalSeconds ?? defaults.intervalSeconds,
  eager: values.eager ?? (defaults.isEager && values.batchFlushIntervalSeconds === undefined),
})

export function checkSink(values: SinkValues, path: string): Problem[] {
  const problems: Problem[] = []
  if (values.batchSize === 0 && values.batchFlushIntervalSeconds === 0)
    problems.push(at(path, 'V30', 'batchSize and batchFlushIntervalSeconds cannot both be 0'))
  if (values.flattenMetadataColumns && !values.rawMode) problems.push(at(`${path}.flattenMetadataColumns`, 'V26', 'needs rawMode'))
  const prefix = values.flattenMetadataColumnsPrefix
  if (prefix !== undefined && !/^[A-Za-z_][A-Za-z0-9_$]{0,62}$/.test(prefix))
    problems.push(at(`${path}.flattenMetadataColumnsPrefix`, 'V26', `"${prefix}" is not an identifier`))
  return problems
}

export function warnSink(values: SinkValues, path: string, defaults: SinkDefaults): Warning[] {
  const isSmall = values.batchSize > 0 && values.batchSize < defaults.batchSize / 10
  return isSmall
    ? [{ path: `${path}.batchSize`, reason: `is below a tenth of the default ${defaults.batchSize}: writes will be slow` }]
    : []
}

/** A polling source reads a table or a query. */
export function checkTableOrQuery(values: { readonly query: string | undefined }, path: string): Problem[] {
  const hasPlace = values.query !== undefined || isGiven(values, 'table')
  return hasPlace ? [] : [at(`${path}.table`, 'V1', 'is required: set table or tableSecretRef')]
}

export const checkAppendOnly = (type: string, values: { readonly upsertMode: boolean }, path: string): Problem[] =>
  values.upsertMode ? [at(`${path}.upsertMode`, 'V25', `${type} sinks append only`)] : []

export const at = (path: string, rule: Rule, reason: string): Problem => ({ path, rule, reason })

/** Whether a field has a value or a secret that provides it. */
export function isGiven(values: object | undefined, field: string, twin = `${field}SecretRef`): boolean {
  const map = values as Readonly<Record<string, SecretRef | string | undefined>> | undefined
  return map !== undefined && (map[field] !== undefined || map[twin] !== undefined)
}

/** Every `tls` in a connector's configuration. */
export function warnInsecure(values: unknown, path: string): Warning[] {
  if (!isMap(values)) return []
  const own = values['insecureSkipVerify'] === true ? [{ path: `${path}.insecureSkipVerify`, reason: insecureText }] : []
  return [...own, ...Object.entries(values).flatMap(([key, value]) => warnInsecure(value, `${path}.${key}`))]
}

/** A connection string with a password belongs in a secret. */
export function warnConnection(values: { readonly connectionString?: string | undefined }, path: string): Warning[] {
  const hasPassword = /:\/\/[^/?#@]*:[^/?#@]+@|\bpassword\s*=/i.test(values.connectionString ?? '')
  const own = hasPassword ? [{ path: `${path}.connectionString`, reason: 'use connectionStringSecretRef' }] : []
  return [...own, ...warnInsecure(values, path)]
}

const insecureText = 'the server is not verified: give a CA instead'
