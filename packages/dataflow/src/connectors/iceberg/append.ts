// An append to a table: files in the object store, then one commit in the catalog. The files stay the same when another writer was
// faster; only the list of manifests is built anew.
import { randomBytes } from 'node:crypto'
import { rawNumber } from '@brokkr/contract/dataflow/language/json.ts'
import type { Rec } from '../connector.ts'
import type { CatalogClient } from './catalog-client.ts'
import { buildFile } from './data-file.ts'
import { type AddedFile, readManifestList, toManifestFile, writeManifest, writeManifestList } from './manifests.ts'
import type { ObjectStore } from './object-store.ts'
import { type PartitionColumn, toPartitionColumns } from './partition-values.ts'
import { buildRows, type RowConfig } from './rows.ts'
import type { Field, PartitionSpec, Schema, Snapshot, TableMetadata } from './schema.ts'

export interface Stores {
  readonly catalog: CatalogClient
  readonly objects: ObjectStore
}

/** Files of a batch in the object store that no snapshot names yet. */
export interface Upload {
  readonly batchId: string
  readonly snapshotId: string
  readonly records: readonly Rec[]
  readonly schema: Schema
  readonly newFields: readonly Field[]
  readonly spec: PartitionSpec
  readonly columns: readonly PartitionColumn[]
  readonly files: readonly AddedFile[]
  readonly manifest: { readonly path: string; readonly length: number } | undefined
  /** All objects, for their removal. */
  readonly paths: string[]
}

/** Files in flight at once. */
const uploadsAtOnce = 4

const dataFolder = ({ location, properties }: TableMetadata): string =>
  properties['write.data.path']?.replace(/\/$/, '') ?? `${location}/data`
const metadataFolder = ({ location, properties }: TableMetadata): string =>
  properties['write.metadata.path']?.replace(/\/$/, '') ?? `${location}/metadata`

/** An upload without files: a snapshot that only carries a summary. */
export const emptyUpload = (metadata: TableMetadata, batchId: string): Upload => ({
  batchId,
  snapshotId: newSnapshotId(),
  records: [],
  schema: metadata.schema,
  newFields: [],
  spec: defaultSpec(metadata),
  columns: [],
  files: [],
  manifest: undefined,
  paths: [],
})

/** `newFields`: columns that the commit adds. Throws before anything is sent if a record cannot be written. */
export async function uploadBatch(
  { objects }: Stores,
  metadata: TableMetadata,
  batch: { readonly batchId: string; readonly records: readonly Rec[]; readonly newFields: readonly Field[] },
  config: RowConfig & { readonly targetFileBytes: number },
  signal: AbortSignal | undefined,
): Promise<Upload> {
  const { batchId, records, newFields } = batch
  const schema = withFields(metadata, newFields)
  const spec = defaultSpec(metadata)
  const columns = toPartitionColumns(spec.fields, schema)
  const groups = buildRows(records, schema, columns, config)
  const snapshotId = newSnapshotId()
  const paths: string[] = []
  const files: AddedFile[] = []
  try {
    for (let from = 0; from < groups.length; from += uploadsAtOnce) {
      const built = groups.slice(from, from + uploadsAtOnce).map(({ tuple, rows }, index) => {
        const path = `${dataFolder(metadata)}/${batchId}-${from + index}.parquet`
        return { ...buildFile(schema, rows), path, tuple }
      })
      paths.push(...built.map(({ path }) => path))
      await Promise.all(built.map(({ path, bytes }) => objects.put(path, bytes, signal)))
      // The bytes are stored; their number is enough.
      files.push(...built.map((file) => ({ ...file, bytes: { length: file.bytes.length } as Uint8Array })))
    }
    const manifest = { path: `${metadataFolder(metadata)}/${batchId}-m0.avro`, length: 0 }
    const bytes = writeManifest({ schema, spec, columns }, snapshotId, files)
    paths.push(manifest.path)
    await objects.put(manifest.path, bytes, signal)
    return { batchId, snapshotId, records, schema, newFields, spec, columns, files, manifest: { ...manifest, length: bytes.length }, paths }
  } catch (thrown) {
    await removeFiles(objects, paths)
    throw thrown
  }
}

export interface CommitTexts {
  /** Added to the snapshot's summary. */
  readonly summary: Readonly<Record<string, string>>
  /** Properties of the table that change with it. */
  readonly properties: Readonly<Record<string, string>>
}

/** Throws a rejection with 409 if another writer was faster. */
export async function commitUpload(
  { catalog, objects }: Stores,
  metadata: TableMetadata,
  upload: Upload,
  { summary, properties }: CommitTexts,
  nowMs: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const parent = metadata.currentSnapshotId === undefined ? undefined : metadata.snapshots.get(metadata.currentSnapshotId)
  const { snapshotId, files, manifest } = upload
  const sequenceNumber = metadata.lastSequenceNumber + 1
  const manifests = parent === undefined ? [] : readManifestList(await objects.get(parent.manifestList, signal), 'the list of manifests')
  if (manifest !== undefined) {
    const at = { ...manifest, specId: upload.spec['spec-id'], snapshotId, sequenceNumber }
    manifests.push(toManifestFile(at, upload.columns, files))
  }
  const list = `${metadataFolder(metadata)}/snap-${snapshotId}-${sequenceNumber}-${upload.batchId}.avro`
  upload.paths.push(list)
  await objects.put(list, writeManifestList({ snapshotId, parentId: parent?.id, sequenceNumber }, manifests), signal)
  const snapshot = {
    'snapshot-id': rawNumber(snapshotId),
    ...(parent === undefined ? {} : { 'parent-snapshot-id': rawNumber(parent.id) }),
    'sequence-number': sequenceNumber,
    'timestamp-ms': Math.max(nowMs, (parent?.timestampMs ?? 0) + 1),
    'manifest-list': list,
    summary: { operation: 'append', ...summary, ...countsOf(parent, files) },
    'schema-id': upload.schema['schema-id'],
  }
  await catalog.commit(
    [
      { type: 'assert-table-uuid', uuid: metadata.uuid },
      { type: 'assert-ref-snapshot-id', ref: 'main', 'snapshot-id': parent === undefined ? null : rawNumber(parent.id) },
      { type: 'assert-default-spec-id', 'default-spec-id': metadata.defaultSpecId },
      ...(upload.newFields.length === 0
        ? []
        : [
            { type: 'assert-current-schema-id', 'current-schema-id': metadata.schema['schema-id'] },
            { type: 'assert-last-assigned-field-id', 'last-assigned-field-id': metadata.lastColumnId },
          ]),
    ],
    [
      ...(upload.newFields.length === 0
        ? []
        : [
            { action: 'add-schema', schema: upload.schema, 'last-column-id': metadata.lastColumnId + upload.newFields.length },
            { action: 'set-current-schema', 'schema-id': -1 },
          ]),
      { action: 'add-snapshot', snapshot },
      { action: 'set-snapshot-ref', 'ref-name': 'main', type: 'branch', 'snapshot-id': rawNumber(snapshotId) },
      ...(Object.keys(properties).length === 0 ? [] : [{ action: 'set-properties', updates: properties }]),
    ],
    signal,
  )
}

/** Objects that stay behind only take space, so a failure is not reported. */
export async function removeFiles(objects: ObjectStore, paths: readonly string[]): Promise<void> {
  await Promise.all(paths.map((path) => objects.delete(path).catch(() => undefined)))
}

function withFields(metadata: TableMetadata, newFields: readonly Field[]): Schema {
  if (newFields.length === 0) return metadata.schema
  const schemaId = Math.max(...metadata.schemas.map((schema) => schema['schema-id'])) + 1
  return { ...metadata.schema, 'schema-id': schemaId, fields: [...metadata.schema.fields, ...newFields] }
}

function defaultSpec({ specs, defaultSpecId }: TableMetadata): PartitionSpec {
  return specs.find((spec) => spec['spec-id'] === defaultSpecId) ?? { 'spec-id': 0, fields: [] }
}

const newSnapshotId = (): string => String((randomBytes(8).readBigUInt64LE() >> 1n) | 1n)

const totals = ['total-delete-files', 'total-position-deletes', 'total-equality-deletes']

function countsOf(parent: Snapshot | undefined, files: readonly AddedFile[]): Record<string, string> {
  const records = files.reduce((sum, { recordCount }) => sum + recordCount, 0)
  const bytes = files.reduce((sum, file) => sum + file.bytes.length, 0)
  const before = (name: string): number => Number(parent?.summary[name] ?? 0)
  return {
    'added-data-files': String(files.length),
    'added-records': String(records),
    'added-files-size': String(bytes),
    'total-data-files': String(before('total-data-files') + files.length),
    'total-records': String(before('total-records') + records),
    'total-files-size': String(before('total-files-size') + bytes),
    ...Object.fromEntries(totals.map((name) => [name, String(before(name))])),
  }
}
