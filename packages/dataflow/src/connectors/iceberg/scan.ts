// Data files of snapshots and their rows. Files are read by row groups, with ranges of bytes; deleted rows are left out.
import { type AsyncBuffer, type FileMetaData, parquetMetadataAsync, parquetReadObjects } from 'hyparquet'
import { compressors } from 'hyparquet-compressors'
import { type AvroRecord, readContainer, renameById } from './avro-container.ts'
import { configError } from './errors.ts'
import { type ManifestFile, readManifestList } from './manifests.ts'
import type { ObjectStore } from './object-store.ts'
import type { Field, Schema, Snapshot } from './schema.ts'
import type { Stored } from './values.ts'

export interface DataFile {
  readonly path: string
  readonly format: string
  readonly recordCount: number
  readonly byteLength: number
  /** 0: data, 1: deletes by position, 2: deletes by equal values. */
  readonly content: number
  readonly sequenceNumber: bigint
  readonly equalityIds: readonly number[]
}

const entryNames = new Map([
  [0, 'status'],
  [1, 'snapshot_id'],
  [2, 'data_file'],
  [3, 'sequence_number'],
])
const fileNames = new Map([
  [134, 'content'],
  [100, 'file_path'],
  [101, 'file_format'],
  [103, 'record_count'],
  [104, 'file_size_in_bytes'],
  [135, 'equality_ids'],
])
const [statusAdded, statusDeleted] = [1, 2]

export interface SnapshotFiles {
  readonly data: readonly DataFile[]
  readonly deletes: readonly DataFile[]
}

/** `all`: every living file of the snapshot · `added`: data files that it added, with all its deletes. */
export async function listFiles(
  objects: ObjectStore,
  snapshot: Snapshot,
  which: 'all' | 'added',
  signal?: AbortSignal,
): Promise<SnapshotFiles> {
  const manifests = readManifestList(await objects.get(snapshot.manifestList, signal), 'the list of manifests')
  const data: DataFile[] = []
  const deletes: DataFile[] = []
  for (const manifest of manifests) {
    const isDelete = manifest.content === 1
    if (which === 'added' && !isDelete && String(manifest.added_snapshot_id) !== snapshot.id) continue
    for (const { status, snapshotId, file } of await readManifest(objects, manifest, signal)) {
      if (status === statusDeleted) continue
      if (isDelete) deletes.push(file)
      else if (which === 'all' || (status === statusAdded && snapshotId === snapshot.id)) data.push(file)
    }
  }
  return { data, deletes }
}

async function readManifest(objects: ObjectStore, manifest: ManifestFile, signal: AbortSignal | undefined) {
  const { schema, records } = readContainer(await objects.get(manifest.manifest_path, signal), 'a manifest')
  const renameEntry = renameById(schema, entryNames)
  const fileSchema = (schema as unknown as { fields: { type: unknown; 'field-id'?: number }[] }).fields.find(
    (one) => one['field-id'] === 2,
  )?.type
  const renameFile = renameById(fileSchema as never, fileNames)
  return records.map((record) => {
    const entry = renameEntry(record)
    const file = renameFile(entry['data_file'] as AvroRecord)
    return {
      status: Number(entry['status']),
      // Both are inherited from the list where the entry has none.
      snapshotId: String((entry['snapshot_id'] as bigint | null | undefined) ?? manifest.added_snapshot_id),
      file: {
        path: String(file['file_path']),
        format: String(file['file_format']).toUpperCase(),
        recordCount: Number(file['record_count']),
        byteLength: Number(file['file_size_in_bytes']),
        content: Number(file['content'] ?? 0),
        sequenceNumber: (entry['sequence_number'] as bigint | null | undefined) ?? manifest.sequence_number,
        equalityIds: ((file['equality_ids'] as number[] | null | undefined) ?? []).map(Number),
      },
    }
  })
}

export interface RowPart {
  /** Index of the first row in the file. */
  readonly from: number
  /** Undefined for a deleted row. */
  readonly rows: readonly (Record<string, Stored> | undefined)[]
}

/** Rows in parts of at most `rowsMax`, from row `start` on. */
export async function* readRows(
  objects: ObjectStore,
  file: DataFile,
  schema: Schema,
  deletes: readonly DataFile[],
  { start, rowsMax, signal }: { start: number; rowsMax: number; signal?: AbortSignal },
): AsyncGenerator<RowPart> {
  const open = await openParquet(objects, file, signal)
  const isDeleted = await toDeleteCheck(objects, file, schema, deletes, signal)
  const names = namesById(open.metadata, schema.fields)
  const rowsTotal = Number(open.metadata.num_rows)
  for (let from = start; from < rowsTotal; from += rowsMax) {
    const raw = await readPart(open, from, Math.min(from + rowsMax, rowsTotal))
    yield {
      from,
      rows: raw.map((row, index) => {
        const named = Object.fromEntries(schema.fields.map(({ id, name }) => [name, toPlain(row[names.get(id) ?? ''])]))
        return isDeleted(from + index, named) ? undefined : named
      }),
    }
  }
}

interface OpenParquet {
  readonly buffer: AsyncBuffer
  readonly metadata: FileMetaData
}

async function openParquet(objects: ObjectStore, file: DataFile, signal: AbortSignal | undefined): Promise<OpenParquet> {
  if (file.format !== 'PARQUET') throw configError(`the table has files of the format ${file.format}, and only Parquet can be read`)
  const buffer: AsyncBuffer = {
    byteLength: file.byteLength,
    slice: async (from, to = file.byteLength) => {
      const bytes = await objects.getRange(file.path, from, to, signal)
      return bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.byteLength) as ArrayBuffer
    },
  }
  const metadata = await parquetMetadataAsync(buffer)
  for (const element of metadata.schema) {
    // The library would round decimals to doubles; without their type they are integers or bytes.
    const isDecimal = element.converted_type === 'DECIMAL' || element.logical_type?.type === 'DECIMAL'
    if (!isDecimal) continue
    delete element.converted_type
    delete element.logical_type
  }
  return { buffer, metadata }
}

async function readPart({ buffer, metadata }: OpenParquet, rowStart: number, rowEnd: number): Promise<Record<string, unknown>[]> {
  return parquetReadObjects({
    file: buffer,
    metadata,
    compressors,
    rowStart,
    rowEnd,
    utf8: false,
    parsers: exactParsers,
    geoparquet: false,
  })
}

/** Times stay integers. */
const exactParsers = {
  timestampFromMilliseconds: (value: bigint) => value * 1000n,
  timestampFromMicroseconds: (value: bigint) => value,
  timestampFromNanoseconds: (value: bigint) => value / 1000n,
  dateFromDays: (days: number) => days,
}

/** Columns may have been renamed since the file was written: their ids tell which they are. Files of other writers may lack ids. */
function namesById({ schema }: FileMetaData, fields: readonly Field[]): Map<number, string> {
  const hasIds = schema.some(({ field_id }) => field_id !== undefined)
  if (!hasIds) return new Map(fields.map(({ id, name }) => [id, name]))
  return new Map(schema.flatMap(({ field_id: id, name }) => (id === undefined ? [] : [[id, name] as const])))
}

const toPlain = (value: unknown): Stored => (value === undefined ? null : (value as Stored))

/** Deletes apply to files that are older, those by position also to files of the same commit. */
async function toDeleteCheck(
  objects: ObjectStore,
  file: DataFile,
  schema: Schema,
  deletes: readonly DataFile[],
  signal: AbortSignal | undefined,
): Promise<(index: number, row: Record<string, Stored>) => boolean> {
  const positions = new Set<number>()
  const equal: { names: string[]; keys: Set<string> }[] = []
  for (const one of deletes) {
    if (one.content === 1 && one.sequenceNumber >= file.sequenceNumber) {
      const open = await openParquet(objects, one, signal)
      for (const row of await readPart(open, 0, Number(open.metadata.num_rows)))
        if (toText(row['file_path']) === file.path) positions.add(Number(row['pos']))
    } else if (one.content === 2 && one.sequenceNumber > file.sequenceNumber) {
      const open = await openParquet(objects, one, signal)
      const fields = findEqualityFields(schema, one.equalityIds)
      const fileNamesById = namesById(open.metadata, fields)
      const rows = await readPart(open, 0, Number(open.metadata.num_rows))
      const keys = new Set(rows.map((row) => keyOf(fields.map(({ id }) => toPlain(row[fileNamesById.get(id) ?? ''])))))
      equal.push({ names: fields.map(({ name }) => name), keys })
    }
  }
  return (index, row) => positions.has(index) || equal.some(({ names, keys }) => keys.has(keyOf(names.map((name) => row[name] ?? null))))
}

/** With fewer columns a delete would hit other rows too. */
export function findEqualityFields(schema: Schema, ids: readonly number[]): readonly Field[] {
  const fields = schema.fields.filter(({ id }) => ids.includes(id))
  if (fields.length === 0 || fields.length !== ids.length)
    throw configError('rows were deleted by the values of a column that the table no longer has: compact the table first')
  return fields
}

const toText = (value: unknown): string => (value instanceof Uint8Array ? Buffer.from(value).toString() : String(value))
const keyOf = (values: readonly Stored[]): string =>
  JSON.stringify(values, (_key, value: unknown) =>
    typeof value === 'bigint' ? `${value}n` : value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
  )
