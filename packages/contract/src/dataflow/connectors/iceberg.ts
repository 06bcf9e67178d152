// nessie and iceberg: one table format behind two catalogs.
import { optional, required, standard, type Values } from '../fields/field.ts'
import { choice, digits, flag, listOf, text } from '../fields/kinds.ts'
import { table } from '../fields/kinds-language.ts'
import { seconds, size } from '../fields/kinds-number.ts'
import type { Problem } from '../fields/problem.ts'
import {
  at,
  basicAuth,
  checkAppendOnly,
  checkSink,
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

const nessieCatalog = {
  baseURL: required(text, { twin: true }),
  branch: standard(text, 'main'),
}
const icebergCatalog = {
  catalogURI: required(text, { twin: true }),
  prefix: optional(text),
}

const both = {
  warehouse: optional(text),
  namespace: required(text, { twin: true }),
  table: required(table, { twin: true }),
  authenticationType: standard(choice(['AUTO', 'BEARER', 'BASIC', 'NONE']), 'AUTO'),
  basicAuth: optional(basicAuth),
  bearerToken: optional(text, { twin: 'tokenSecretRef', isSecret: true }),
  oauth2ServerURI: optional(text),
  oauth2ClientID: optional(text, { twin: true }),
  oauth2ClientSecret: optional(text, { twin: true, isSecret: true }),
  oauth2Scope: optional(text),
  tls: optional(tls),
  s3Endpoint: optional(text),
  s3Region: optional(text),
  accessKey: optional(text, { twin: true }),
  secretAccessKey: optional(text, { twin: true, isSecret: true }),
}
type Both = Values<typeof both>

const reading = {
  ...both,
  query: optional(text),
  pollIntervalMs: standard(seconds, 10_000, { from: 'pollInterval' }),
  incrementalBySnapshot: standard(flag, true),
  startSnapshotID: optional(digits),
  snapshotCheckpoints: standard(flag, true),
}

const icebergDefaults: SinkDefaults = { batchSize: 100_000, batchBytes: 64 << 20, intervalSeconds: 60, isEager: false }
const writing = {
  ...both,
  ...sinkFields(icebergDefaults),
  upsertMode: standard(flag, false),
  autoCreateTable: standard(flag, false),
  partitionBy: optional(listOf(text)),
  targetFileBytes: standard(size({ min: 0, above: true }), 64 << 20),
}

const nessieSourceFields = { ...nessieCatalog, ...reading }
const icebergSourceFields = { ...icebergCatalog, ...reading }
const nessieSinkFields = { ...nessieCatalog, ...writing }
const icebergSinkFields = { ...icebergCatalog, ...writing }
export type NessieSource = Values<typeof nessieSourceFields>
export type IcebergSource = Values<typeof icebergSourceFields>
export type NessieSink = Omit<Values<typeof nessieSinkFields>, keyof SinkFlush> & SinkFlush
export type IcebergSink = Omit<Values<typeof icebergSinkFields>, keyof SinkFlush> & SinkFlush

export const nessieSource: Side<typeof nessieSourceFields, NessieSource> = { fields: nessieSourceFields, ...sourceRules() }
export const icebergSource: Side<typeof icebergSourceFields, IcebergSource> = { fields: icebergSourceFields, ...sourceRules() }

function sourceRules<V extends Values<typeof reading>>() {
  return {
    check: (values: V, path: string): Problem[] => [...checkAuth(values, path), ...checkStorage(values, path), ...checkQuery(values, path)],
    warn: warnInsecure,
    complete: (values: V): V => values,
  }
}

export const nessieSink: Side<typeof nessieSinkFields, NessieSink> = {
  fields: nessieSinkFields,
  check: (values, path) => checkWriting('nessie', values, path),
  warn: (values, path) => [...warnInsecure(values, path), ...warnSink(values, path, icebergDefaults)],
  complete: (values) => ({ ...values, ...completeSink(values, icebergDefaults) }),
}
export const icebergSink: Side<typeof icebergSinkFields, IcebergSink> = {
  fields: icebergSinkFields,
  check: (values, path) => checkWriting('iceberg', values, path),
  warn: (values, path) => [...warnInsecure(values, path), ...warnSink(values, path, icebergDefaults)],
  complete: (values) => ({ ...values, ...completeSink(values, icebergDefaults) }),
}

const checkWriting = (type: string, values: Values<typeof writing>, path: string): Problem[] => [
  ...checkAuth(values, path),
  ...checkStorage(values, path),
  ...checkSink(values, path),
  ...checkAppendOnly(type, values, path),
]

/** V27, the login half. */
function checkAuth(values: Both, path: string): Problem[] {
  const hasBearer = isGiven(values, 'bearerToken', 'tokenSecretRef')
  const oauth2 = [isGiven(values, 'oauth2ClientID'), isGiven(values, 'oauth2ClientSecret')]
  const hasBasic = isGiven(values.basicAuth, 'username') && isGiven(values.basicAuth, 'password')
  const problems: Problem[] = []
  if (values.authenticationType === 'BEARER' && !hasBearer && !oauth2.includes(true))
    problems.push(at(`${path}.authenticationType`, 'V27', 'BEARER needs bearerToken or tokenSecretRef'))
  if ((values.authenticationType === 'BASIC' || values.basicAuth !== undefined) && !hasBasic)
    problems.push(at(path, 'V27', 'BASIC needs username and password'))
  if (oauth2[0] !== oauth2[1]) problems.push(at(path, 'V27', 'oauth2 needs oauth2ClientID and oauth2ClientSecret'))
  if (hasBearer && oauth2.includes(true)) problems.push(at(path, 'V27', 'bearer and oauth2 exclude each other'))
  return problems
}

const checkStorage = (values: Both, path: string): Problem[] =>
  isGiven(values, 'accessKey') === isGiven(values, 'secretAccessKey') ? [] : [at(path, 'V27', 'set both S3 keys or none')]

const checkQuery = (values: { readonly query: string | undefined }, path: string): Problem[] =>
  values.query === undefined ? [] : [at(`${path}.query`, 'V29', 'query is not supported here: use a trino source')]
