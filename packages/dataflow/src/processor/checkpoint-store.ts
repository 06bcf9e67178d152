// Where a checkpoint lies. Both stores keep a few texts under their keys and a version; whoever writes names the version it saw, so
// that two writers never overwrite each other unseen.

export interface StoredTexts {
  readonly texts: Readonly<Record<string, string>>
  readonly version: string
}

export interface CheckpointStore {
  load(signal: AbortSignal): Promise<StoredTexts>
  /** Writes these keys and leaves the others. Throws StoreConflict when somebody else wrote since `version`. */
  save(texts: Readonly<Record<string, string>>, version: string, signal: AbortSignal): Promise<string>
}

export class StoreConflict extends Error {
  override name = 'StoreConflict'
}
