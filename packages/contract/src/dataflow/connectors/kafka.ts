// kafka: fields of source and sink, and rules between them.
import { z } from 'zod'
import { type Kind, optional, refuse, refuseType, required, standard, type Values } from '../fields/field.ts'
import { choice, flag, listOf, text } from '../fields/kinds.ts'
import { path as pathKind } from '../fields/kinds-language.ts'
import { duration, size, whole } from '../fields/kinds-number.ts'
import type { Problem } from '../fields/problem.ts'
import { parseInstant } from '../language/instant.ts'
import {
  at,
  checkSink,
  completeSink,
  isGiven,
  type Side,
  type SinkDefaults,
  type SinkFlush,
  sasl,
  schemaRegistry,
  sinkFields,
  tls,
  warnInsecure,
  warnSink,
} from './shared.ts'

const securityProtocols = ['PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL'] as const
export type SecurityProtocol = (typeof securityProtocols)[number]

const both = {
  brokers: required(listOf(text), { twin: true }),
  topic: required(text, { twin: true }),
  securityProtocol: optional(choice(securityProtocols, (value) => value.replace(/[ -]/g, '_'))),
  tls: optional(tls),
  sasl: optional(sasl),
  format: standard(choice(['json', 'avro']), 'json'),
  avroSchema: optional(text, { twin: true }),
  avroSchemaFile: optional(text),
  schemaRegistry: optional(schemaRegistry),
}
type Both = Values<typeof both>

const startOffset: Kind<string> = {
  read: (value, place) => {
    if (typeof value !== 'string') return refuseType(place, 'string', value)
    const word = value.trim().toLowerCase()
    if (word === 'earliest' || word === 'latest') return word
    if (parseInstant(value) !== undefined) return value
    return refuse(place, 'V3', `"${value}" is not known; use one of: RFC3339 time, earliest, latest`)
  },
  print: (value) => value,
  schema: z.string(),
}

const sourceFields = {
  ...both,
  consumerGroup: optional(text, { twin: true }),
  startOffset: standard(startOffset, 'earliest'),
  isolation: standard(choice(['committed', 'uncommitted']), 'committed'),
  avroUnions: standard(choice(['unwrap', 'wrap']), 'unwrap'),
  fetchMinBytes: standard(size({ min: 0 }), 1),
  fetchMaxBytes: standard(size({ min: 0, above: true }), 8 << 20),
  maxPartitionFetchBytes: standard(size({ min: 0, above: true }), 1 << 20),
  consumerMaxWaitMs: standard(duration(), 500, { from: 'consumerMaxWait' }),
  netReadTimeoutMs: standard(duration(), 30_000, { from: 'netReadTimeout' }),
  netWriteTimeoutMs: standard(duration(), 30_000, { from: 'netWriteTimeout' }),
}
type SourceValues = Values<typeof sourceFields>
export type KafkaSource = Omit<SourceValues, 'securityProtocol'> & { readonly securityProtocol: SecurityProtocol }

export const kafkaSource: Side<typeof sourceFields, KafkaSource> = {
  fields: sourceFields,
  check: (values, path) => [...checkBoth(values, path), ...checkTimeouts(values, path)],
  warn: warnInsecure,
  complete: (values, flow) => ({
    ...values,
    securityProtocol: chooseProtocol(values),
    consumerGroup: isGiven(values, 'consumerGroup') ? values.consumerGroup : `dataflow-${flow.namespace}-${flow.name}`,
  }),
}

const kafkaDefaults: SinkDefaults = { batchSize: 1000, batchBytes: 1 << 20, intervalSeconds: 0.01, isEager: true }
const sinkSide = {
  ...both,
  ...sinkFields(kafkaDefaults),
  subject: optional(text),
  requiredAcks: standard(choice(['all', 'local', 'none']), 'all'),
  compression: standard(choice(['none', 'gzip', 'snappy', 'lz4', 'zstd']), 'lz4'),
  idempotent: optional(flag),
  maxOpenRequests: standard(whole({ min: 1 }), 1),
  keyField: optional(pathKind('place')),
}
type SinkValues = Values<typeof sinkSide>
export type KafkaSink = Omit<SinkValues, 'securityProtocol' | 'idempotent' | keyof SinkFlush> &
  SinkFlush & { readonly securityProtocol: SecurityProtocol; readonly idempotent: boolean }

export const kafkaSink: Side<typeof sinkSide, KafkaSink> = {
  fields: sinkSide,
  check: (values, path) => [...checkBoth(values, path), ...checkSink(values, path), ...checkAcks(values, path)],
  warn: (values, path) => [...warnInsecure(values, path), ...warnSink(values, path, kafkaDefaults)],
  complete: (values) => ({
    ...values,
    ...completeSink(values, kafkaDefaults),
    securityProtocol: chooseProtocol(values),
    idempotent: values.idempotent ?? values.requiredAcks === 'all',
    // The subject of a topic from a secret is set when the secret is resolved.
    subject: values.subject ?? (values.topic === undefined ? undefined : `${values.topic}-value`),
  }),
}

function chooseProtocol(values: Both): SecurityProtocol {
  if (values.securityProtocol !== undefined) return values.securityProtocol
  if (values.sasl !== undefined) return values.tls === undefined ? 'SASL_PLAINTEXT' : 'SASL_SSL'
  return values.tls === undefined ? 'PLAINTEXT' : 'SSL'
}

const checkBoth = (values: Both, path: string): Problem[] => [
  ...checkProtocol(values, path),
  ...checkSasl(values, path),
  ...checkAvro(values, path),
]

function checkProtocol(values: Both, path: string): Problem[] {
  const protocol = values.securityProtocol
  if (protocol === undefined) return []
  const wants = { tls: protocol.endsWith('SSL'), sasl: protocol.startsWith('SASL') }
  return (['tls', 'sasl'] as const)
    .filter((part) => wants[part] !== (values[part] !== undefined))
    .map((part) => at(`${path}.securityProtocol`, 'V19', `${protocol} ${wants[part] ? 'needs' : 'forbids'} ${part}`))
}

const checkSasl = ({ sasl: given }: Both, path: string): Problem[] =>
  given === undefined || (isGiven(given, 'username') && isGiven(given, 'password'))
    ? []
    : [at(`${path}.sasl`, 'V20', 'sasl needs username and password')]

function checkAvro(values: Both, path: string): Problem[] {
  const hasSchema = isGiven(values, 'avroSchema') || values.avroSchemaFile !== undefined || values.schemaRegistry !== undefined
  if (values.format !== 'avro' || hasSchema) return []
  return [at(`${path}.format`, 'V23', 'avro needs avroSchema, avroSchemaFile, avroSchemaSecretRef or schemaRegistry')]
}

const checkTimeouts = (values: SourceValues, path: string): Problem[] =>
  values.netReadTimeoutMs > values.consumerMaxWaitMs ? [] : [at(`${path}.netReadTimeout`, 'V21', 'must be longer than consumerMaxWait')]

const checkAcks = (values: SinkValues, path: string): Problem[] =>
  values.idempotent === true && values.requiredAcks !== 'all' ? [at(`${path}.idempotent`, 'V22', 'idempotent needs requiredAcks all')] : []
