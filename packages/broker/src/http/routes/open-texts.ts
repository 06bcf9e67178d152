// The texts of many revisions, read by immutable id in pages: no single answer of the database grows with the length of a list.
import type { BrokerDeps } from '../../deps.ts'
import { UnsealFailed } from '../../seal.ts'

const [pageRows, pageBytes] = [500, 1024 * 1024]

/** One for each row, or it throws: a text that is missing must never be read as an empty one. */
export async function openTexts(
  { sql, texts }: Pick<BrokerDeps, 'sql' | 'texts'>,
  rows: readonly { readonly id: string; readonly yaml_bytes: number }[],
): Promise<Map<string, string>> {
  const opened = new Map<string, string>()
  for (const ids of pagesOf(rows)) {
    const loaded = await texts.load(sql, ids)
    for (const id of ids) opened.set(id, loaded.get(id) ?? unreadable(id))
  }
  return opened
}

function unreadable(id: string): never {
  throw new UnsealFailed(`the text of deployment object ${id} is gone or cannot be opened with any key of the ring`)
}

function* pagesOf(rows: readonly { readonly id: string; readonly yaml_bytes: number }[]): Generator<string[]> {
  let [ids, bytes]: [string[], number] = [[], 0]
  for (const { id, yaml_bytes } of rows) {
    if (ids.length === pageRows || (ids.length > 0 && bytes + yaml_bytes > pageBytes)) {
      yield ids
      ;[ids, bytes] = [[], 0]
    }
    ids.push(id)
    bytes += yaml_bytes
  }
  if (ids.length > 0) yield ids
}
