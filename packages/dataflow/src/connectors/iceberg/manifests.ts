// Manifests and manifest lists of format 2: what a snapshot consists of. Pure.
import { type AvroRecord, type AvroSchema, readContainer, renameById, writeContainer } from './avro-container.ts'
import { type BuiltFile, decimalBytes, toBound } from './data-file.ts'
import type { PartitionColumn } from './partition-values.ts'
import { type IcebergType, type PartitionSpec, parseDecimalType, parseFixedType, type Schema } from './schema.ts'
import type { Stored } from './values.ts'

const field = (id: number, name: string, type: AvroSchema, isOptional = false) => ({
  name,
  type: isOptional ? ['null', type] : type,
  'field-id': id,
  ...(isOptional ? { default: null } : {}),
})
const mapOf = (keyId: number, valueId: number, value: string): AvroSchema => ({
  type: 'array',
  logicalType: 'map',
  items: {
    type: 'record',
    name: `k${keyId}_v${valueId}`,
    fields: [field(keyId, 'key', 'int'), field(valueId, 'value', value)],
  },
})
const listOf = (id: number, items: AvroSchema): AvroSchema => ({ type: 'array', items, 'element-id': id })

const listSchema: AvroSchema = {
  type: 'record',
  name: 'manifest_file',
  fields: [
    field(500, 'manifest_path', 'string'),
    field(501, 'manifest_length', 'long'),
    field(502, 'partition_spec_id', 'int'),
    field(517, 'content', 'int'),
    field(515, 'sequence_number', 'long'),
    field(516, 'min_sequence_number', 'long'),
    field(503, 'added_snapshot_id', 'long'),
    field(504, 'added_files_count', 'int'),
    field(505, 'existing_files_count', 'int'),
    field(506, 'deleted_files_count', 'int'),
    field(512, 'added_rows_count', 'long'),
    field(513, 'existing_rows_count', 'long'),
    field(514, 'deleted_rows_count', 'long'),
    field(
      507,
      'partitions',
      listOf(508, {
        type: 'record',
        name: 'r508',
        fields: [
          field(509, 'contains_null', 'boolean'),
          field(518, 'contains_nan', 'boolean', true),
          field(510, 'lower_bound', 'bytes', true),
          field(511, 'upper_bound', 'bytes', true),
        ],
      }),
      true,
    ),
    field(519, 'key_metadata', 'bytes', true),
  ],
}
const listNames = new Map(
  (listSchema as unknown as { fields: { name: string; 'field-id': number }[] }).fields.map((one) => [one['field-id'], one.name]),
)

/** An entry of a manifest list. */
export interface ManifestFile {
  readonly manifest_path: string
  readonly manifest_length: bigint
  readonly partition_spec_id: number
  /** 0: data files, 1: delete files. */
  readonly content: number
  readonly sequence_number: bigint
  readonly min_sequence_number: bigint
  readonly added_snapshot_id: bigint
  readonly added_files_count: number
  readonly existing_files_count: number
  readonly deleted_files_count: number
  readonly added_rows_count: bigint
  readonly existing_rows_count: bigint
  readonly deleted_rows_count: bigint
  readonly partitions: AvroRecord[] | null
  readonly key_metadata: Uint8Array | null
}

export function readManifestList(file: Buffer, name: string): ManifestFile[] {
  const { schema, records } = readContainer(file, name)
  const rename = renameById(schema, listNames)
  return records.map((record) => ({ ...missingInFormat1, ...dropUndefined(rename(record)) }) as unknown as ManifestFile)
}
const missingInFormat1 = {
  content: 0,
  sequence_number: 0n,
  min_sequence_number: 0n,
  added_files_count: 0,
  existing_files_count: 0,
  deleted_files_count: 0,
  added_rows_count: 0n,
  existing_rows_count: 0n,
  deleted_rows_count: 0n,
  partitions: null,
  key_metadata: null,
}
const dropUndefined = (record: AvroRecord): AvroRecord =>
  Object.fromEntries(Object.entries(record).filter(([name, value]) => value !== undefined && (value !== null || name in nullable)))
const nullable = { partitions: true, key_metadata: true }

export function writeManifestList(
  of: { snapshotId: string; parentId: string | undefined; sequenceNumber: number },
  manifests: readonly ManifestFile[],
): Buffer {
  const meta = {
    'format-version': '2',
    'snapshot-id': of.snapshotId,
    'parent-snapshot-id': of.parentId ?? 'null',
    'sequence-number': String(of.sequenceNumber),
  }
  return writeContainer(listSchema, meta, manifests as unknown as AvroRecord[])
}

/** A data file at its place. */
export interface AddedFile extends BuiltFile {
  readonly path: string
  readonly tuple: readonly Stored[]
}

export function writeManifest(
  table: { schema: Schema; spec: PartitionSpec; columns: readonly PartitionColumn[] },
  snapshotId: string,
  files: readonly AddedFile[],
): Buffer {
  const meta = {
    schema: JSON.stringify(table.schema),
    'schema-id': String(table.schema['schema-id']),
    'partition-spec': JSON.stringify(table.spec.fields),
    'partition-spec-id': String(table.spec['spec-id']),
    'format-version': '2',
    content: 'data',
  }
  return writeContainer(
    manifestSchema(table.columns),
    meta,
    files.map((file) => toEntry(file, table.columns, snapshotId)),
  )
}

/** Sequence numbers are inherited from the manifest list, so a repeated commit needs no new manifest. */
function toEntry(
  { path, bytes, recordCount, metrics, tuple }: AddedFile,
  columns: readonly PartitionColumn[],
  snapshotId: string,
): AvroRecord {
  const pairs = <T>(map: ReadonlyMap<number, T>) =>
    [...map].map(([key, value]) => ({ key, value: value instanceof Uint8Array ? Buffer.from(value) : value }))
  return {
    status: 1,
    snapshot_id: BigInt(snapshotId),
    sequence_number: null,
    file_sequence_number: null,
    data_file: {
      content: 0,
      file_path: path,
      file_format: 'PARQUET',
      partition: Object.fromEntries(
        columns.map(({ field: one, resultType }, index) => [avroName(one.name), toAvroValue(resultType, tuple[index] ?? null)]),
      ),
      record_count: BigInt(recordCount),
      file_size_in_bytes: BigInt(bytes.length),
      value_counts: pairs(metrics.valueCounts),
      null_value_counts: pairs(metrics.nullCounts),
      lower_bounds: pairs(metrics.lowerBounds),
      upper_bounds: pairs(metrics.upperBounds),
      sort_order_id: 0,
    },
  }
}

function toAvroValue(type: IcebergType, value: Stored): unknown {
  if (value instanceof Uint8Array) return Buffer.from(value)
  const decimal = typeof type === 'string' ? parseDecimalType(type) : undefined
  if (decimal === undefined || value === null) return value
  const length = decimalBytes(decimal.precision)
  return Buffer.from(
    BigInt.asUintN(length * 8, value as bigint)
      .toString(16)
      .padStart(length * 2, '0'),
    'hex',
  )
}

/** Other characters are not allowed in names of Avro. */
const avroName = (name: string): string =>
  name.replace(/^[^A-Za-z_]|[^A-Za-z0-9_]/g, (character) => `_x${character.codePointAt(0)!.toString(16).toUpperCase()}`)

const manifestSchema = (columns: readonly PartitionColumn[]): AvroSchema => ({
  type: 'record',
  name: 'manifest_entry',
  fields: [
    field(0, 'status', 'int'),
    field(1, 'snapshot_id', 'long', true),
    field(3, 'sequence_number', 'long', true),
    field(4, 'file_sequence_number', 'long', true),
    field(2, 'data_file', {
      type: 'record',
      name: 'r2',
      fields: [
        field(134, 'content', 'int'),
        field(100, 'file_path', 'string'),
        field(101, 'file_format', 'string'),
        field(102, 'partition', {
          type: 'record',
          name: 'r102',
          fields: columns.map(({ field: one, resultType }) =>
            field(one['field-id'], avroName(one.name), toAvroType(one['field-id'], resultType), true),
          ),
        }),
        field(103, 'record_count', 'long'),
        field(104, 'file_size_in_bytes', 'long'),
        field(109, 'value_counts', mapOf(119, 120, 'long'), true),
        field(110, 'null_value_counts', mapOf(121, 122, 'long'), true),
        field(125, 'lower_bounds', mapOf(126, 127, 'bytes'), true),
        field(128, 'upper_bounds', mapOf(129, 130, 'bytes'), true),
        field(140, 'sort_order_id', 'int', true),
      ],
    }),
  ],
})

const avroTypes: Readonly<Record<string, AvroSchema | undefined>> = {
  boolean: 'boolean',
  int: 'int',
  long: 'long',
  float: 'float',
  double: 'double',
  string: 'string',
  binary: 'bytes',
  date: { type: 'int', logicalType: 'date' },
  time: { type: 'long', logicalType: 'time-micros' },
  timestamp: { type: 'long', logicalType: 'timestamp-micros', 'adjust-to-utc': false },
  timestamptz: { type: 'long', logicalType: 'timestamp-micros', 'adjust-to-utc': true },
  uuid: { type: 'fixed', size: 16, logicalType: 'uuid', name: 'uuid_fixed' },
}

function toAvroType(id: number, type: IcebergType): AvroSchema {
  if (typeof type !== 'string') return 'bytes'
  const found = avroTypes[type]
  if (found !== undefined) return found
  const decimal = parseDecimalType(type)
  if (decimal !== undefined)
    return { type: 'fixed', name: `decimal_${id}`, size: decimalBytes(decimal.precision), logicalType: 'decimal', ...decimal }
  return { type: 'fixed', name: `fixed_${id}`, size: parseFixedType(type) ?? 0 }
}

/** The entry of a manifest of added files in the list of its snapshot. */
export function toManifestFile(
  manifest: { path: string; length: number; specId: number; snapshotId: string; sequenceNumber: number },
  columns: readonly PartitionColumn[],
  files: readonly AddedFile[],
): ManifestFile {
  const rows = files.reduce((sum, { recordCount }) => sum + recordCount, 0)
  return {
    manifest_path: manifest.path,
    manifest_length: BigInt(manifest.length),
    partition_spec_id: manifest.specId,
    content: 0,
    sequence_number: BigInt(manifest.sequenceNumber),
    min_sequence_number: BigInt(manifest.sequenceNumber),
    added_snapshot_id: BigInt(manifest.snapshotId),
    added_files_count: files.length,
    existing_files_count: 0,
    deleted_files_count: 0,
    added_rows_count: BigInt(rows),
    existing_rows_count: 0n,
    deleted_rows_count: 0n,
    partitions: columns.map(({ resultType }, index) =>
      summarize(
        resultType,
        files.map(({ tuple }) => tuple[index] ?? null),
      ),
    ),
    key_metadata: null,
  }
}

function summarize(type: IcebergType, values: readonly Stored[]): AvroRecord {
  const present = values.filter((value) => value !== null)
  const bound = (value: Stored | undefined, isUpper: boolean) => {
    const bytes = value === undefined || typeof type !== 'string' ? undefined : toBound(type, value, isUpper)
    return bytes === undefined ? null : Buffer.from(bytes)
  }
  const sorted = present.toSorted(compareStored)
  return {
    contains_null: present.length < values.length,
    contains_nan: false,
    lower_bound: bound(sorted[0], false),
    upper_bound: bound(sorted.at(-1), true),
  }
}

function compareStored(left: Stored, right: Stored): number {
  if (typeof left === 'string' && typeof right === 'string') return Buffer.compare(Buffer.from(left), Buffer.from(right))
  if (left instanceof Uint8Array && right instanceof Uint8Array) return Buffer.compare(left, right)
  return (left as number) < (right as number) ? -1 : 1
}
