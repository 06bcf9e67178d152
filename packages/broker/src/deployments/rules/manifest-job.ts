// Jobs on a manifest: check, compare, mask. Pure, so that they run on the main thread or in a worker. Rejections are returned as data,
// because error classes are lost between threads.
import type { DryRun } from '@brokkr/contract/deployments/deployment-object.ts'
import { ApiError } from '@brokkr/contract/errors.ts'
import { type ManifestDocument, ManifestError, manifestWarnings, parseManifest } from '@brokkr/contract/manifest/manifest.ts'
import { compareManifests } from './compare-manifests.ts'
import { maskManifest } from './mask-manifest.ts'

export type Validation = 'lenient' | 'strict'
export type ManifestJob =
  | { readonly do: 'check'; readonly text: string; readonly validation: Validation }
  /** `text` null: a deletion marker, which removes everything. */
  | { readonly do: 'compare'; readonly before: string; readonly text: string | null; readonly validation: Validation }
  | { readonly do: 'mask'; readonly text: string }

export type ManifestOutcome =
  | { readonly is: 'checked'; readonly warnings: readonly string[] }
  | { readonly is: 'compared'; readonly warnings: readonly string[]; readonly objects: DryRun['objects'] }
  | { readonly is: 'masked'; readonly text: string }
  | { readonly is: 'refused'; readonly message: string; readonly details: Record<string, unknown> }

/** Throws `invalid_deployment_object` for an unreadable manifest and `overloaded` if too many jobs wait. */
export interface ManifestWork {
  check(text: string, validation: Validation): Promise<{ warnings: readonly string[] }>
  compare(before: string, text: string | null, validation: Validation): Promise<{ warnings: readonly string[]; objects: DryRun['objects'] }>
  mask(text: string): Promise<string>
}

export function doManifestJob(job: ManifestJob): ManifestOutcome {
  try {
    if (job.do === 'mask') return { is: 'masked', text: maskManifest(job.text) }
    const { documents, warnings } = job.text === null ? { documents: [], warnings: [] } : readManifest(job.text, job.validation)
    if (job.do === 'check') return { is: 'checked', warnings }
    return { is: 'compared', warnings, objects: compareManifests(parseStored(job.before), documents) }
  } catch (error) {
    if (error instanceof ApiError) return { is: 'refused', message: error.message, details: { ...error.details } }
    throw error
  }
}

/** A stored manifest that newer limits reject compares as empty, so that the new manifest is still shown. */
function parseStored(text: string): ManifestDocument[] {
  try {
    return parseManifest(text, {}, () => undefined)
  } catch (error) {
    if (error instanceof ManifestError) return []
    throw error
  }
}

// Parses a submitted manifest as agents do. An unreadable manifest is rejected with line and column but without content; suspicious parts
// become warnings.

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
