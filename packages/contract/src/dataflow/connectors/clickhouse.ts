// clickhouse.
import { optional, required, standard, type Values } from '../fields/field.ts'
import { choice, flag, text } from '../fields/kinds.ts'
import { identifier, identifiers, table } from '../fields/kinds-language.ts'
import { seconds, whole } from '../fields/kinds-number.ts'
import {
  checkSink,
  checkTableOrQuery,
  completeSink,
  type Side,
  type SinkDefaults,
  type SinkFlush,
  sinkFields,
  warnConnection,
  warnSink,
} from './shared.ts'

const connection = {
  connectionString: required(text, { twin: true }),
  httpPort: optional(whole({ min: 1, max: 65_535 })),
}

const sourceFields = {
  ...connection,
  table: optional(table, { twin: true }),
  query: optional(text),
  pollIntervalMs: standard(seconds, 5000, { from: 'pollInterval' }),
  readBatchSize: standard(whole({ min: 0 }), 10_000),
  orderByColumn: standard(identifier, 'id'),
  changeTrackingColumn: standard(identifier, 'created_at'),
}
export type ClickhouseSource = Values<typeof sourceFields>

export const clickhouseSource: Side<typeof sourceFields, ClickhouseSource> = {
  fields: sourceFields,
  check: checkTableOrQuery,
  warn: (values, path) => [...warnConnection(values, path), { path, reason: 'deleted rows are not detected' }],
  complete: (values) => ({ ...values, readBatchSize: values.readBatchSize === 0 ? 10_000 : values.readBatchSize }),
}

const clickhouseDefaults: SinkDefaults = { batchSize: 10_000, batchBytes: 16 << 20, intervalSeconds: 1, isEager: false }
const sinkSide = {
  ...connection,
  ...sinkFields(clickhouseDefaults),
  table: required(table, { twin: true }),
  tableEngine: optional(choice(['MergeTree', 'ReplacingMergeTree'])),
  replacingVersionColumn: optional(identifier),
  autoCreateTable: standard(flag, false),
  upsertMode: standard(flag, false),
  conflictKey: standard(identifiers, ['id']),
}
type SinkValues = Values<typeof sinkSide>
export type TableEngine = NonNullable<SinkValues['tableEngine']>
export type ClickhouseSink = Omit<SinkValues, 'tableEngine' | keyof SinkFlush> & SinkFlush & { readonly tableEngine: TableEngine }

export const clickhouseSink: Side<typeof sinkSide, ClickhouseSink> = {
  fields: sinkSide,
  check: checkSink,
  warn: (values, path) => [...warnConnection(values, path), ...warnSink(values, path, clickhouseDefaults)],
  complete: (values) => ({
    ...values,
    ...completeSink(values, clickhouseDefaults),
    tableEngine: values.tableEngine ?? (values.upsertMode ? 'ReplacingMergeTree' : 'MergeTree'),
  }),
}
