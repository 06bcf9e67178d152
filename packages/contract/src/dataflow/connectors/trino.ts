// Fields, validation and defaults of the Trino source and sink.
import { optional, required, standard, type Values } from '../fields/field.ts'
import { choice, flag, mapOf, opaqueMap, text } from '../fields/kinds.ts'
import { identifier, identifiers, table } from '../fields/kinds-language.ts'
import { seconds, whole } from '../fields/kinds-number.ts'
import type { Problem } from '../fields/problem.ts'
import { block } from '../fields/read-fields.ts'
import {
  at,
  basicAuth,
  checkAppendOnly,
  checkSink,
  checkTableOrQuery,
  completeSink,
  isGiven,
  type Side,
  type SinkDefaults,
  type SinkFlush,
  sinkFields,
  tls,
  warnInsecure,
  warnSink,
} from './shared.ts'

const authMethods = ['none', 'basic', 'bearer', 'oauth2'] as const
export type TrinoAuth = (typeof authMethods)[number]

const connection = {
  serverURL: required(text, { twin: true }),
  catalog: required(text, { twin: true }),
  schema: required(text, { twin: true }),
  user: standard(text, 'dataflow-operator'),
  auth: optional(choice(authMethods)),
  basicAuth: optional(basicAuth),
  bearerToken: optional(text, { twin: true, isSecret: true }),
  oauth2: optional(
    block({
      tokenURL: required(text),
      clientID: optional(text, { twin: true }),
      clientSecret: optional(text, { twin: true, isSecret: true }),
      scope: optional(text),
    }),
  ),
  /** Not supported in this release: refused, so that a flow never runs without the configured login. */
  keycloak: optional(opaqueMap),
  tls: optional(tls),
  queryTimeoutSeconds: standard(whole({ min: 1 }), 600),
  sessionProperties: optional(mapOf(text)),
}
type Connection = Values<typeof connection>

const sourceFields = {
  ...connection,
  table: optional(table, { twin: true }),
  query: optional(text),
  pollIntervalMs: standard(seconds, 5000, { from: 'pollInterval' }),
  readBatchSize: standard(whole({ min: 0 }), 1000),
  orderByColumn: standard(identifier, 'id'),
  changeTrackingColumn: standard(identifier, 'updated_at'),
}
type SourceValues = Values<typeof sourceFields>
export type TrinoSource = Omit<SourceValues, 'auth'> & { readonly auth: TrinoAuth }

export const trinoSource: Side<typeof sourceFields, TrinoSource> = {
  fields: sourceFields,
  check: (values, path) => [...checkTableOrQuery(values, path), ...checkAuth(values, path)],
  warn: (values, path) => [...warnInsecure(values, path), { path, reason: 'deleted rows are not detected' }],
  complete: (values) => ({ ...values, auth: chooseAuth(values), readBatchSize: values.readBatchSize === 0 ? 1000 : values.readBatchSize }),
}

const trinoDefaults: SinkDefaults = { batchSize: 500, batchBytes: 900_000, intervalSeconds: 5, isEager: false }
const trinoSinkFields = {
  ...connection,
  ...sinkFields(trinoDefaults),
  table: required(table, { twin: true }),
  upsertMode: standard(flag, false),
  conflictKey: optional(identifiers),
  autoCreateTable: standard(flag, false),
}
type SinkValues = Values<typeof trinoSinkFields>
export type TrinoSink = Omit<SinkValues, 'auth' | keyof SinkFlush> & SinkFlush & { readonly auth: TrinoAuth }

export const trinoSink: Side<typeof trinoSinkFields, TrinoSink> = {
  fields: trinoSinkFields,
  check: (values, path) => [...checkSink(values, path), ...checkAuth(values, path), ...checkAppendOnly('trino', values, path)],
  warn: (values, path) => [...warnInsecure(values, path), ...warnSink(values, path, trinoDefaults)],
  complete: (values) => ({ ...values, ...completeSink(values, trinoDefaults), auth: chooseAuth(values) }),
}

function chooseAuth(values: Connection): TrinoAuth {
  if (values.auth !== undefined) return values.auth
  if (isGiven(values, 'bearerToken')) return 'bearer'
  if (values.oauth2 !== undefined) return 'oauth2'
  return values.basicAuth === undefined ? 'none' : 'basic'
}

function checkAuth(values: Connection, path: string): Problem[] {
  if (values.keycloak !== undefined)
    return [at(`${path}.keycloak`, 'V3', `keycloak is not supported in this release; use one of: ${authMethods.toSorted().join(', ')}`)]
  const hasBearer = isGiven(values, 'bearerToken')
  if (hasBearer && values.oauth2 !== undefined) return [at(path, 'V27', 'bearer and oauth2 exclude each other')]
  const auth = chooseAuth(values)
  if (auth === 'bearer' && !hasBearer) return [at(path, 'V27', 'auth: bearer requires bearerToken or bearerTokenSecretRef')]
  if (auth === 'basic' && !(isGiven(values.basicAuth, 'username') && isGiven(values.basicAuth, 'password')))
    return [at(path, 'V27', 'auth: basic requires username and password')]
  if (auth === 'oauth2' && !(isGiven(values.oauth2, 'clientID') && isGiven(values.oauth2, 'clientSecret')))
    return [at(path, 'V27', 'auth: oauth2 requires clientID and clientSecret')]
  return []
}
