// trino.
import { optional, required, standard, type Values } from '../field.ts'
import { choice, flag, mapOf, opaqueMap, text } from '../kinds.ts'
import { identifier, identifiers, table } from '../kinds-language.ts'
import { seconds, whole } from '../kinds-number.ts'
import type { Problem } from '../problem.ts'
import { block } from '../read-fields.ts'
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

const authWays = ['none', 'basic', 'bearer', 'oauth2'] as const
export type TrinoAuth = (typeof authWays)[number]

const connection = {
  serverURL: required(text, { twin: true }),
  catalog: required(text, { twin: true }),
  schema: required(text, { twin: true }),
  user: standard(text, 'dataflow-operator'),
  auth: optional(choice(authWays)),
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
  /** Not in this release: refused, so that nobody believes to be logged in. */
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
  warn: (values, path) => [...warnInsecure(values, path), { path, reason: 'deletes are not seen' }],
  complete: (values) => ({ ...values, auth: authOf(values), readBatchSize: values.readBatchSize === 0 ? 1000 : values.readBatchSize }),
}

export const trinoDefaults: SinkDefaults = { batchSize: 500, batchBytes: 900_000, intervalSeconds: 5, isEager: false }
const sinkSide = {
  ...connection,
  ...sinkFields(trinoDefaults),
  table: required(table, { twin: true }),
  upsertMode: standard(flag, false),
  conflictKey: optional(identifiers),
  autoCreateTable: standard(flag, false),
}
type SinkValues = Values<typeof sinkSide>
export type TrinoSink = Omit<SinkValues, 'auth' | keyof SinkFlush> & SinkFlush & { readonly auth: TrinoAuth }

export const trinoSink: Side<typeof sinkSide, TrinoSink> = {
  fields: sinkSide,
  check: (values, path) => [...checkSink(values, path), ...checkAuth(values, path), ...checkAppendOnly('trino', values, path)],
  warn: (values, path) => [...warnInsecure(values, path), ...warnSink(values, path, trinoDefaults)],
  complete: (values) => ({ ...values, ...completeSink(values, trinoDefaults), auth: authOf(values) }),
}

function authOf(values: Connection): TrinoAuth {
  if (values.auth !== undefined) return values.auth
  if (isGiven(values, 'bearerToken')) return 'bearer'
  if (values.oauth2 !== undefined) return 'oauth2'
  return values.basicAuth === undefined ? 'none' : 'basic'
}

function checkAuth(values: Connection, path: string): Problem[] {
  if (values.keycloak !== undefined)
    return [at(`${path}.keycloak`, 'V3', `"keycloak" is not known; use one of: ${authWays.toSorted().join(', ')}`)]
  const hasBearer = isGiven(values, 'bearerToken')
  if (hasBearer && values.oauth2 !== undefined) return [at(path, 'V27', 'bearer and oauth2 exclude each other')]
  const auth = authOf(values)
  if (auth === 'bearer' && !hasBearer) return [at(path, 'V27', 'bearer needs bearerToken or bearerTokenSecretRef')]
  if (auth === 'basic' && !(isGiven(values.basicAuth, 'username') && isGiven(values.basicAuth, 'password')))
    return [at(path, 'V27', 'basic needs username and password')]
  if (auth === 'oauth2' && !(isGiven(values.oauth2, 'clientID') && isGiven(values.oauth2, 'clientSecret')))
    return [at(path, 'V27', 'oauth2 needs clientID and clientSecret')]
  return []
}
