// Parses a submitted manifest as agents do. An unreadable manifest is rejected with line and column but without content; suspicious parts
// become warnings.
import { ApiError } from '@brokkr/contract/errors.ts'
import { type ManifestDocument, ManifestError, manifestWarnings, parseManifest } from '@brokkr/contract/manifest/manifest.ts'

export interface ReadManifest {
  readonly documents: readonly ManifestDocument[]
  readonly warnings: readonly string[]
}

export function readManifest(text: string, validation: 'lenient' | 'strict'): ReadManifest {
  const tolerated: ManifestError[] = []
  try {
    const documents = parseManifest(text, {}, validation === 'lenient' ? (error) => tolerated.push(error) : undefined)
    if (documents.length + tolerated.length === 0)
      throw new ApiError(
        'invalid_deployment_object',
        'the manifest contains no object; to remove what the stack deployed, submit a deletion marker',
      )
    const warnings = [...tolerated.map((error) => error.message), ...manifestWarnings(documents)]
    if (validation === 'strict' && warnings[0] !== undefined) throw new ApiError('invalid_deployment_object', warnings[0])
    return { documents, warnings }
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error
    const { line, column, limit } = error
    throw new ApiError('invalid_deployment_object', error.message, { details: { line, column, ...(limit === undefined ? {} : { limit }) } })
  }
}
