// postgresql and postgresql-cdc.
import { many, optional, required, standard, type Values } from '../fields/field.ts'
import { choice, flag, listOf, text } from '../fields/kinds.ts'
import { identifier, identifiers, table } from '../fields/kinds-language.ts'
import { seconds, size, whole } from '../fields/kinds-number.ts'
import type { Problem } from '../fields/problem.ts'
import {
  at,
  checkSink,
  checkTableOrQuery,
  completeSink,
  isGiven,
  type Side,
  type SinkDefaults,
  type SinkFlush,
  sinkFields,
  tls,
  warnConnection,
  warnSink,
} from './shared.ts'

const connection = {
  connectionString: required(text, { twin: true }),
  tls: optional(tls),
}

const sourceFields = {
  ...connection,
  table: optional(table, { twin: true }),
  query: optional(text),
  pollIntervalMs: standard(seconds, 5000, { from: 'pollInterval' }),
  readBatchSize: standard(whole({ min: 0 }), 1000),
  changeTrackingColumn: standard(identifier, 'updated_at'),
  orderByColumn: standard(identifier, 'id'),
  overlapSeconds: optional(whole({ min: 0 })),
  autoCreateTable: standard(flag, false),
}
export type PostgresqlSource = Values<typeof sourceFields>

export const postgresqlSource: Side<typeof sourceFields, PostgresqlSource> = {
  fields: sourceFields,
  check: checkTableOrQuery,
  warn: (values, path) => [
    ...warnConnection(values, path),
    { path, reason: 'deleted rows are not detected; late commits need overlapSeconds or postgresql-cdc' },
  ],
  complete: (values) => ({ ...values, readBatchSize: values.readBatchSize === 0 ? 1000 : values.readBatchSize }),
}

const cdcFields = {
  ...connection,
  slotName: optional(text, { twin: true }),
  publicationName: optional(text, { twin: true }),
  tables: many(listOf(table)),
  snapshotMode: standard(choice(['initial', 'never', 'always']), 'initial'),
  createSlotIfNotExists: standard(flag, true),
  createPublicationIfNotExists: standard(flag, true),
  dropSlotOnDelete: standard(flag, false),
  plugin: standard(choice(['pgoutput']), 'pgoutput'),
  envelopeFormat: standard(choice(['row', 'debezium']), 'row'),
  heartbeatIntervalSeconds: standard(whole({ min: 0 }), 10),
  primaryKeyColumn: optional(identifier),
  includeColumns: optional(listOf(identifier)),
  excludeColumns: optional(listOf(identifier)),
  slotLagWarningBytes: standard(size({ min: 0 }), 5 * 2 ** 30),
}
export type PostgresqlCdcSource = Values<typeof cdcFields>

export const postgresqlCdcSource: Side<typeof cdcFields, PostgresqlCdcSource> = {
  fields: cdcFields,
  check: (values, path) =>
    values.includeColumns === undefined || values.excludeColumns === undefined
      ? []
      : [at(path, 'V16', 'includeColumns and excludeColumns exclude each other')],
  warn: warnConnection,
  complete: (values, flow) => ({
    ...values,
    slotName: isGiven(values, 'slotName') ? values.slotName : slotName(flow.namespace, flow.name),
    publicationName: isGiven(values, 'publicationName') ? values.publicationName : slotName(flow.namespace, flow.name),
    heartbeatIntervalSeconds: values.heartbeatIntervalSeconds === 0 ? 10 : values.heartbeatIntervalSeconds,
  }),
}

const slotName = (namespace: string, name: string): string => `brokkr_${namespace}_${name}`.replace(/[^A-Za-z0-9_]/g, '_').slice(0, 63)

const postgresqlDefaults: SinkDefaults = { batchSize: 1000, batchBytes: 4 << 20, intervalSeconds: 1, isEager: true }
const sinkSide = {
  ...connection,
  ...sinkFields(postgresqlDefaults),
  table: required(table, { twin: true }),
  upsertMode: standard(flag, false),
  conflictKey: standard(identifiers, ['id']),
  upsertStrategy: standard(choice(['always', 'ifNewer']), 'always'),
  upsertVersionColumn: optional(identifier),
  onConflict: standard(choice(['ignore', 'error']), 'ignore'),
  softDeleteColumn: optional(identifier),
  deleteMode: optional(choice(['soft', 'hard', 'row', 'ignore'])),
  autoCreateTable: standard(flag, false),
}
type SinkValues = Values<typeof sinkSide>
export type DeleteMode = NonNullable<SinkValues['deleteMode']>
export type PostgresqlSink = Omit<SinkValues, 'deleteMode' | keyof SinkFlush> & SinkFlush & { readonly deleteMode: DeleteMode }

export const postgresqlSink: Side<typeof sinkSide, PostgresqlSink> = {
  fields: sinkSide,
  check: (values, path) => [...checkSink(values, path), ...checkUpsert(values, path)],
  warn: (values, path) => [...warnConnection(values, path), ...warnSink(values, path, postgresqlDefaults)],
  complete: (values) => ({ ...values, ...completeSink(values, postgresqlDefaults), deleteMode: chooseDeleteMode(values) }),
}

const checkUpsert = (values: SinkValues, path: string): Problem[] =>
  values.upsertStrategy === 'ifNewer' && values.upsertVersionColumn === undefined
    ? [at(`${path}.upsertStrategy`, 'V24', 'ifNewer needs upsertVersionColumn')]
    : []

function chooseDeleteMode(values: SinkValues): DeleteMode {
  if (values.deleteMode !== undefined) return values.deleteMode
  if (values.softDeleteColumn !== undefined) return 'soft'
  return values.upsertMode ? 'hard' : 'row'
}
