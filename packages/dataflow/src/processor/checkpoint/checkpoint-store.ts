// Interface of checkpoint stores: texts by key, and a version. A writer passes the version that it read, so two writers cannot overwrite
// each other.

export interface StoredCheckpoint {
  readonly texts: Readonly<Record<string, string>>
  readonly version: string
  /** Identifies the store among those with the same name in other clusters or on other machines. */
  readonly storeId: string
}

export interface CheckpointStore {
  load(signal: AbortSignal): Promise<StoredCheckpoint>
  /** Writes these keys and keeps the others. Throws StoreConflict if another writer changed the store since `version`. */
  save(texts: Readonly<Record<string, string>>, version: string, signal: AbortSignal): Promise<string>
}

export class StoreConflict extends Error {
  override name = 'StoreConflict'
}
