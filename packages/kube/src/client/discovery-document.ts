// Parses discovery documents: the aggregated form (one document) and the old form (one per group version). Pure.
import { rowsAt, textAt, valueAt } from './fields.ts'
import { apiVersionOf, type Fields } from './object.ts'
import type { Resource } from './paths.ts'

export interface ServedKinds {
  resources: readonly Resource[]
  failedGroups: ReadonlySet<string>
}

const RESOURCES_MAX = 20_000

/** Returns undefined for the old form. */
export function readAggregated(document: unknown): ServedKinds | undefined {
  if (textAt(document, 'kind') !== 'APIGroupDiscoveryList') return undefined
  const resources: Resource[] = []
  const failedGroups = new Set<string>()
  for (const row of rowsAt(document, 'items')) {
    const group = textAt(row, 'metadata', 'name') ?? ''
    for (const version of rowsAt(row, 'versions')) {
      // Stale means that the server of an aggregated group does not respond; its list may be outdated.
      if (textAt(version, 'freshness') === 'Stale') failedGroups.add(group)
      for (const entry of rowsAt(version, 'resources')) resources.push(parseResource(group, textAt(version, 'version') ?? '', entry))
    }
  }
  return { resources: resources.slice(0, RESOURCES_MAX), failedGroups }
}

function parseResource(group: string, version: string, entry: Fields): Resource {
  return {
    group,
    version,
    kind: textAt(entry, 'responseKind', 'kind') ?? '',
    plural: textAt(entry, 'resource') ?? '',
    namespaced: textAt(entry, 'scope') === 'Namespaced',
    verbs: texts(valueAt(entry, 'verbs')),
    subresources: rowsAt(entry, 'subresources').map((sub) => textAt(sub, 'subresource') ?? ''),
  }
}

/** The document lists versions (core group) or groups; `fetch` returns undefined for a group version that does not respond. */
export async function readLegacy(document: unknown, fetch: (path: string) => Promise<unknown>): Promise<ServedKinds> {
  const groupVersions = [
    ...texts(valueAt(document, 'versions')).map((version) => ({ group: '', version })),
    ...rowsAt(document, 'groups').flatMap((row) => listVersions(row).map((version) => ({ group: textAt(row, 'name') ?? '', version }))),
  ]
  const failedGroups = new Set<string>()
  const lists = await Promise.all(
    groupVersions.map(async ({ group, version }) => {
      const list = await fetch(`${group === '' ? '/api' : '/apis'}/${apiVersionOf(group, version)}`)
      if (textAt(list, 'kind') !== 'APIResourceList') failedGroups.add(group)
      return legacyResources(group, version, rowsAt(list, 'resources'))
    }),
  )
  return { resources: lists.flat().slice(0, RESOURCES_MAX), failedGroups }
}

/** Preferred version first, as in the aggregated form. */
function listVersions(row: Fields): string[] {
  const versions = rowsAt(row, 'versions').map((entry) => textAt(entry, 'version') ?? '')
  const preferred = textAt(row, 'preferredVersion', 'version')
  return preferred ? [preferred, ...versions.filter((version) => version !== preferred)] : versions
}

function legacyResources(group: string, version: string, rows: readonly Fields[]): Resource[] {
  const names = rows.map((row) => textAt(row, 'name') ?? '')
  return rows
    .filter((row) => !textAt(row, 'name')?.includes('/'))
    .map((row) => {
      const plural = textAt(row, 'name') ?? ''
      return {
        group,
        version,
        kind: textAt(row, 'kind') ?? '',
        plural,
        namespaced: valueAt(row, 'namespaced') === true,
        verbs: texts(valueAt(row, 'verbs')),
        subresources: names.filter((name) => name.startsWith(`${plural}/`)).map((name) => name.slice(plural.length + 1)),
      }
    })
}

const texts = (value: unknown): string[] => (Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [])
