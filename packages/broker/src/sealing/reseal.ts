// Reseals every sealed value with the first key of the ring, one transaction per page, so that it can be interrupted and repeated. Afterwards
// the older keys are retired and can be removed from the configuration.
import type { Sql } from '@brokkr/postgres'
import type { Seal } from '../seal.ts'
import { type SealedColumn, sealedColumns } from './sealed-columns.ts'
import * as encryptionKeys from './store.ts'

export interface ResealResult {
  readonly resealed: number
  /** Rows already sealed with the first key. */
  readonly kept: number
  /** Rows that no key opens; while any exist, no key is retired. */
  readonly broken: readonly string[]
  readonly retired: number
}

export async function reseal(deps: { sql: Sql; seal: Seal }): Promise<ResealResult> {
  const { now } = await encryptionKeys.now(deps.sql, {})
  const firstPass = await pass(deps, null)
  // Rows written during the first pass: if one is sealed with an older key, a running broker still uses it.
  const secondPass = await pass(deps, now)
  if (secondPass.resealed > 0)
    throw new Error(
      `${secondPass.resealed} rows were sealed with an older key while this ran: restart every broker with the new key first, then reseal again`,
    )
  const hasNoBrokenRows = firstPass.broken.length === 0 && secondPass.broken.length === 0
  const retired = hasNoBrokenRows ? await encryptionKeys.retireOthers(deps.sql, { fingerprint: deps.seal.fingerprints[0] }) : 0
  return { ...firstPass, broken: [...new Set([...firstPass.broken, ...secondPass.broken])], retired }
}

interface PassResult {
  resealed: number
  kept: number
  readonly broken: string[]
}

async function pass(deps: { sql: Sql; seal: Seal }, since: string | null): Promise<PassResult> {
  const result: PassResult = { resealed: 0, kept: 0, broken: [] }
  for (const column of sealedColumns) {
    for (let after = nilId; ; ) {
      const lastId = await resealPage(deps, column, { after, since, result })
      if (lastId === null) break
      after = lastId
    }
  }
  return result
}

const nilId = '00000000-0000-0000-0000-000000000000'

/** Last id of the page; null if no row was left. */
async function resealPage(
  { sql, seal }: { sql: Sql; seal: Seal },
  column: SealedColumn,
  { after, since, result }: { after: string; since: string | null; result: PassResult },
): Promise<string | null> {
  return sql.begin(async (tx) => {
    await encryptionKeys.allowReseal(tx, {})
    const rows = await column.page(tx, { after, since })
    for (const { id, sealed } of rows) {
      const context = { table: column.table, column: column.column, id }
      const outcome = seal.reseal(context, sealed)
      if (outcome === 'kept') result.kept += 1
      else if (outcome === 'broken') result.broken.push(`${column.table}.${column.column} ${id}`)
      else result.resealed += await column.put(tx, { id, was: sealed, sealed: outcome })
    }
    return rows.at(-1)?.id ?? null
  })
}
