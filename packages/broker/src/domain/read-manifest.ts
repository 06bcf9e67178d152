// A submitted manifest, read as every agent will read it. What no agent could read is refused, with its place and never its
// content; what merely looks odd is told.
import { ApiError } from '@brokkr/contract/error.ts'
import { type ManifestDocument, ManifestError, manifestWarnings, parseManifest } from '@brokkr/contract/manifest.ts'

export interface ReadManifest {
  readonly documents: readonly ManifestDocument[]
  readonly warnings: readonly string[]
}

export function readManifest(text: string, validation: 'lenient' | 'strict'): ReadManifest {
  const odd: ManifestError[] = []
  try {
    const documents = parseManifest(text, {}, validation === 'lenient' ? (error) => odd.push(error) : undefined)
    if (documents.length + odd.length === 0)
      throw new ApiError(
        'invalid_deployment_object',
        'the manifest holds no object; to remove what the stack deployed, submit a deletion marker',
      )
    const warnings = [...odd.map((error) => error.message), ...manifestWarnings(documents)]
    if (validation === 'strict' && warnings[0] !== undefined) throw new ApiError('invalid_deployment_object', warnings[0])
    return { documents, warnings }
  } catch (error) {
    if (!(error instanceof ManifestError)) throw error
    const { line, column, limit } = error
    throw new ApiError('invalid_deployment_object', error.message, { details: { line, column, ...(limit === undefined ? {} : { limit }) } })
  }
}
