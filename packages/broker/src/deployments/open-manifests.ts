// Reads and opens manifests of many deployment objects in pages, so that no database response grows with the length of a list.
import type { Sql } from '@brokkr/postgres'
import { UnsealFailed } from '../seal.ts'
import type { ManifestCache } from './manifest-cache.ts'

const [pageRows, pageBytes] = [500, 1024 * 1024]

/** Returns a manifest for each row or throws; a missing manifest must never appear as an empty one. */
export async function openManifests(
  { sql, texts }: { sql: Sql; texts: ManifestCache },
  rows: readonly { readonly id: string; readonly yaml_bytes: number }[],
): Promise<Map<string, string>> {
  const manifests = new Map<string, string>()
  for (const page of splitIntoPages(rows)) {
    const ids = page.map(({ id }) => id)
    const batch = await texts.load(sql, ids)
    for (const id of ids) manifests.set(id, batch.get(id) ?? throwUnreadable(id))
  }
  return manifests
}

function throwUnreadable(id: string): never {
  throw new UnsealFailed(`the manifest of deployment object ${id} is missing or cannot be opened with any configured key`)
}

/** Pages of at most 500 rows or 1 MiB; a row with a larger manifest is a page of its own. */
export function* splitIntoPages<Row extends { readonly yaml_bytes: number }>(rows: readonly Row[]): Generator<Row[]> {
  let [page, bytes]: [Row[], number] = [[], 0]
  for (const row of rows) {
    if (page.length === pageRows || (page.length > 0 && bytes + row.yaml_bytes > pageBytes)) {
      yield page
      ;[page, bytes] = [[], 0]
    }
    page.push(row)
    bytes += row.yaml_bytes
  }
  if (page.length > 0) yield page
}
