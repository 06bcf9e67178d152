// The texts of many revisions, read by immutable id in pages: no single answer of the database grows with the length of a list.
import type { BrokerDeps } from '../../deps.ts'
import { sealedYaml } from '../../domain/sealed-yaml.ts'
import * as targetState from '../../store/target-state.ts'

const [pageRows, pageBytes] = [500, 1024 * 1024]

export async function openTexts(
  { sql, seal }: Pick<BrokerDeps, 'sql' | 'seal'>,
  rows: readonly { readonly id: string; readonly yaml_bytes: number }[],
): Promise<Map<string, string>> {
  const texts = new Map<string, string>()
  for (const ids of pagesOf(rows)) {
    for (const { id, sealed } of await targetState.sealedOf(sql, { ids }))
      texts.set(id, seal.open(sealedYaml(id), Buffer.from(sealed, 'base64')))
  }
  return texts
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
