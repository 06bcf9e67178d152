// The reason why a manifest was rejected: problem, location, limit and remedy. Clients, logs and statuses show the message, so it
// never quotes the manifest.

export type ManifestErrorCode =
  | 'syntax'
  | 'too_large'
  | 'too_many_documents'
  | 'too_many_nodes'
  | 'too_deep'
  | 'too_many_aliases'
  | 'bad_alias'
  | 'bad_tag'
  | 'bad_key'
  | 'bad_merge'
  | 'bad_number'
  | 'bad_list'
  | 'duplicate_key'
  | 'not_an_object'

/** Both count from 1. */
export interface SourceLocation {
  readonly line: number
  readonly column: number
}

export class ManifestError extends Error {
  override readonly name = 'ManifestError'
  readonly code: ManifestErrorCode
  readonly line: number | null
  readonly column: number | null
  readonly limit: number | undefined

  constructor(code: ManifestErrorCode, place: SourceLocation | null, text: { what: string; todo: string; limit?: number }) {
    super(`${place === null ? '' : `line ${place.line}, column ${place.column} of the manifest: `}${text.what}; ${text.todo}`)
    this.code = code
    this.line = place?.line ?? null
    this.column = place?.column ?? null
    this.limit = text.limit
  }
}

export const syntaxError = (place: SourceLocation, what: string, todo: string): ManifestError =>
  new ManifestError('syntax', place, { what, todo })
