// Snapshots of a table since an earlier one. Most catalogs list them in the table's metadata; Nessie shows only the last, and its own
// history of commits leads to the others.
import type { JsonObject } from '@brokkr/contract/dataflow/language/json.ts'
import type { CatalogClient, LoadedTable } from './catalog-client.ts'
import { configError } from './errors.ts'
import type { CatalogPlace } from './place.ts'
import type { Snapshot, TableMetadata } from './schema.ts'

/** More steps back than this count as lost history. */
const stepsMax = 10_000
const pageEntries = 500

/** Oldest first, without the snapshot `after`; undefined if the way back to it is lost. */
export async function listSnapshotsSince(
  catalog: CatalogClient,
  place: CatalogPlace,
  { metadata }: LoadedTable,
  after: string,
  signal: AbortSignal | undefined,
): Promise<Snapshot[] | undefined> {
  return walkParents(metadata, after) ?? (place.branch === undefined ? undefined : walkCommits(catalog, place, metadata, after, signal))
}

/** By the parents that the metadata names. */
function walkParents({ currentSnapshotId, snapshots }: TableMetadata, after: string): Snapshot[] | undefined {
  const found: Snapshot[] = []
  let id = currentSnapshotId
  while (id !== undefined && id !== after && found.length < stepsMax) {
    const snapshot = snapshots.get(id)
    if (snapshot === undefined) return undefined
    found.unshift(snapshot)
    id = snapshot.parentId
  }
  return id === after ? found : undefined
}

/** The snapshot with this id, by the commits of a Nessie branch. */
export async function findCommitted(
  catalog: CatalogClient,
  place: CatalogPlace,
  id: string,
  signal: AbortSignal | undefined,
): Promise<Snapshot | undefined> {
  for await (const entry of listCommits(catalog, place, signal)) {
    if (snapshotOf(entry, place) !== id) continue
    return (await catalog.loadTable(signal, `${place.branch}@${entry.commitMeta.hash}`))?.metadata.snapshots.get(id)
  }
  return undefined
}

/** By the commits of a Nessie branch that changed the table. */
async function walkCommits(
  catalog: CatalogClient,
  place: CatalogPlace,
  { uuid, snapshots }: TableMetadata,
  after: string,
  signal: AbortSignal | undefined,
): Promise<Snapshot[] | undefined> {
  const hashes = new Map<string, string>()
  for await (const entry of listCommits(catalog, place, signal)) {
    const id = snapshotOf(entry, place)
    if (id === after) return loadAll(catalog, place, { uuid, hashes, known: snapshots }, signal)
    if (id !== undefined) hashes.set(id, entry.commitMeta.hash)
    if (hashes.size > stepsMax) return undefined
  }
  return undefined
}

/** Newest first. */
async function* listCommits(catalog: CatalogClient, place: CatalogPlace, signal: AbortSignal | undefined): AsyncGenerator<LogEntry> {
  let token: string | undefined
  do {
    const page = (await catalog.getOwn(historyUrl(place, token), signal)) as unknown as HistoryPage
    yield* page.logEntries ?? []
    token = page.hasMore === true ? page.token : undefined
  } while (token !== undefined)
}

interface HistoryPage {
  readonly logEntries?: readonly LogEntry[]
  readonly hasMore?: boolean
  readonly token?: string
}
interface LogEntry {
  readonly commitMeta: { readonly hash: string }
  readonly operations?: readonly { readonly key?: { readonly elements?: readonly string[] }; readonly content?: JsonObject }[]
}

function historyUrl({ url, branch = '', levels, table }: CatalogPlace, token: string | undefined): string {
  const key = [...levels, table].join('.')
  // Quotes and backslashes would end the text in the filter; such names are then filtered here alone.
  const filter = /^[\w.-]+$/.test(key) ? { filter: `operations.exists(op, op.key == '${key}')` } : {}
  const query = new URLSearchParams({
    fetch: 'ALL',
    'max-records': String(pageEntries),
    ...filter,
    ...(token === undefined ? {} : { 'page-token': token }),
  })
  return `${url.replace(/\/iceberg$/, '')}/api/v2/trees/${encodeURIComponent(branch)}/history?${query}`
}

function snapshotOf({ operations = [] }: LogEntry, { levels, table }: CatalogPlace): string | undefined {
  const name = [...levels, table].join('\u001f')
  const content = operations.find(({ key }) => key?.elements?.join('\u001f') === name)?.content
  const id = content?.['snapshotId']
  // A number with more digits than a double has was read as its digits.
  const text = id === undefined || id === null ? undefined : typeof id === 'object' ? JSON.stringify(id) : String(id)
  return text === '-1' ? undefined : text
}

async function loadAll(
  catalog: CatalogClient,
  { branch }: CatalogPlace,
  { uuid, hashes, known }: { uuid: string; hashes: ReadonlyMap<string, string>; known: ReadonlyMap<string, Snapshot> },
  signal: AbortSignal | undefined,
): Promise<Snapshot[]> {
  const found: Snapshot[] = []
  for (const [id, hash] of [...hashes].toReversed()) {
    const table = known.has(id) ? undefined : await catalog.loadTable(signal, `${branch}@${hash}`)
    if (table !== undefined && table.metadata.uuid !== uuid)
      throw configError('the table was created anew: reset the checkpoint of the flow')
    const snapshot = known.get(id) ?? table?.metadata.snapshots.get(id)
    if (snapshot === undefined) throw configError(`snapshot ${id} of the table cannot be read`)
    found.push(snapshot)
  }
  return found
}
