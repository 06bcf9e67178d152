// Checks at start that the key ring opens the stored rows. A missing or wrong key stops the start, because the broker could not serve
// existing manifests and would seal new rows with an unexpected key.
import type { Sql } from '@brokkr/postgres'
import type { Seal } from '../seal.ts'
import { sealedColumns } from './sealed-columns.ts'
import * as encryptionKeys from './store.ts'

export async function checkKeys(deps: { sql: Sql; seal: Seal }): Promise<void> {
  await deps.sql.begin(async (sql) => {
    await encryptionKeys.lock(sql, {})
    const known = await encryptionKeys.list(sql, {})
    const opensSample = await canOpenSamples(sql, deps.seal)
    const problem = findKeyRingProblem({ known, ring: deps.seal.fingerprints, opensSample })
    if (problem !== null) throw new Error(problem)
    await encryptionKeys.activate(sql, { fingerprint: deps.seal.fingerprints[0] })
  })
}

/** True if the ring opens one row of every non-empty sealed column; null if no row is sealed. */
async function canOpenSamples(sql: Sql, seal: Seal): Promise<boolean | null> {
  let result: boolean | null = null
  for (const { table, column, sample } of sealedColumns) {
    const [row] = await sample(sql, {})
    if (row === undefined) continue
    if (!seal.canOpen({ table, column, id: row.id }, row.sealed)) return false
    result = true
  }
  return result
}

export interface KeyRingFacts {
  readonly known: readonly encryptionKeys.KnownKey[]
  /** Fingerprints, the sealing key first. */
  readonly ring: readonly string[]
  /** null if no row is sealed yet; then any ring is valid. */
  readonly opensSample: boolean | null
}

/** Pure: null if the ring fits the database, else the reason and the next step. */
export function findKeyRingProblem({ known, ring, opensSample }: KeyRingFacts): string | null {
  if (opensSample === null) return null
  const missing = known.filter(({ fingerprint, state }) => state !== 'retired' && !ring.includes(fingerprint))
  const missingFingerprints = missing.map(({ fingerprint }) => fingerprint).join(', ')
  if (missing.length > 0)
    return `the database has rows encrypted with key ${missingFingerprints}, and the configured keys are ${ring.join(', ')}: set the key with that fingerprint as broker.encryption_key or in broker.encryption_keys_previous`
  if (opensSample) return null
  return `the database has rows that no configured key (${ring.join(', ')}) decrypts: set the key they were encrypted with as broker.encryption_key or in broker.encryption_keys_previous`
}
