// Limits of a manifest and the counters while one is read. Each limit is checked before the work that it bounds.
import { ManifestError, type SourceLocation } from './manifest-error.ts'

export interface ManifestLimits {
  /** Size of the whole text as UTF-8. */
  readonly bytesMax: number
  /** Size of one document as UTF-8; no API server accepts more. */
  readonly documentBytesMax: number
  /** Objects in all: documents, with each item of a list counted for itself. */
  readonly documentsMax: number
  /** Maps, lists and scalar values of all documents; each use of an alias counts its whole content. Keys do not count. */
  readonly nodesMax: number
  /** Maps and lists inside each other; the largest CustomResourceDefinitions need 27. */
  readonly depthMax: number
  readonly aliasesMax: number
}

export const defaultManifestLimits: ManifestLimits = {
  bytesMax: 8 * 1024 * 1024,
  documentBytesMax: 3 * 1024 * 1024,
  documentsMax: 2_000,
  nodesMax: 200_000,
  depthMax: 64,
  aliasesMax: 100,
}

export interface Budget {
  readonly limits: ManifestLimits
  nodes: number
  aliases: number
}

export const openBudget = (limits: Partial<ManifestLimits>): Budget => ({
  limits: { ...defaultManifestLimits, ...limits },
  nodes: 0,
  aliases: 0,
})

export function spendNodes(budget: Budget, count: number, place: SourceLocation): void {
  budget.nodes += count
  const limit = budget.limits.nodesMax
  if (budget.nodes <= limit) return
  throw new ManifestError('too_many_nodes', place, {
    what: `more than ${limit} values, aliases counted in full`,
    todo: 'split it into several manifests',
    limit,
  })
}

export function spendAlias(budget: Budget, place: SourceLocation): void {
  budget.aliases += 1
  const limit = budget.limits.aliasesMax
  if (budget.aliases <= limit) return
  throw new ManifestError('too_many_aliases', place, {
    what: `more than ${limit} uses of aliases`,
    todo: 'write the repeated values out',
    limit,
  })
}

export function checkDepth(budget: Budget, depth: number, place: SourceLocation): void {
  const limit = budget.limits.depthMax
  if (depth <= limit) return
  throw new ManifestError('too_deep', place, {
    what: `maps and lists nested more than ${limit} deep`,
    todo: 'make the object flatter',
    limit,
  })
}

export function checkDocuments(budget: Budget, count: number, line: number): void {
  const limit = budget.limits.documentsMax
  if (count <= limit) return
  throw new ManifestError(
    'too_many_documents',
    { line, column: 1 },
    { what: `more than ${limit} objects`, todo: 'split it into several manifests', limit },
  )
}

export function checkBytes(text: string, limit: number, of: { what: string; todo: string; place: SourceLocation | null }): void {
  if (!isLarger(text, limit)) return
  throw new ManifestError('too_large', of.place, { what: `${of.what} is larger than ${limit} bytes`, todo: of.todo, limit })
}

/** Counts UTF-8 bytes only where the number of UTF-16 units leaves it open. */
function isLarger(text: string, bytesMax: number): boolean {
  if (text.length > bytesMax) return true
  if (text.length * 3 <= bytesMax) return false
  let bytes = text.length
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code < 0x80) continue
    // The two units of a surrogate pair encode to four bytes, so each adds one; other units of the upper range encode to three.
    bytes += code < 0x800 || (code >= 0xd800 && code <= 0xdfff) ? 1 : 2
  }
  return bytes > bytesMax
}
